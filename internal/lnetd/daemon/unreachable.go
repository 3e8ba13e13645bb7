package daemon

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/server"
	"github.com/lnetd/lnetd/lnet"
)

// withCause adds the cause and a remedy to err if it means that this node has no path to the NID to. It
// returns other errors unchanged.
func (b *backend) withCause(to lnet.NID, err error) error {
	if err == nil || server.Errno(err) != syscall.EHOSTUNREACH {
		return err
	}
	cause, remedy := b.whyUnreachable(to)
	if cause == "" {
		return err
	}
	return &server.UnreachableError{Err: err, Cause: cause, Remedy: remedy}
}

// whyUnreachable returns why this node has no path to a NID, and what an operator can do: an NI on the
// NID's net waits for its interface, there is no route, or the gateways are down or have not answered
// yet. It returns "" if the node has an NI on the net, or a route that is up.
func (b *backend) whyUnreachable(to lnet.NID) (cause, remedy string) {
	net := to.Net()
	for _, i := range b.node.NIs() {
		if i.Net == net {
			return "", ""
		}
	}
	if waits := b.waitsOn(net); waits != "" {
		return waits, "to see the reason, use: lnetdctl net show"
	}
	var reasons []string
	for _, r := range b.node.postponed.all() {
		if r.Net != net {
			continue
		}
		reason := fmt.Sprintf("the route through %s is waiting for an NI on %s", r.Gateway, r.Gateway.Net())
		if waits := b.waitsOn(r.Gateway.Net()); waits != "" {
			reason += ": " + waits
		}
		reasons, remedy = append(reasons, reason), "to see the reason, use: lnetdctl net show"
	}
	for _, r := range b.node.Routes() {
		if r.Net != net {
			continue
		}
		if r.Up {
			return "", ""
		}
		reasons = append(reasons, fmt.Sprintf("the route through %s is down: %s", r.Gateway, b.whyDown(r.Gateway)))
		remedy = fmt.Sprintf("check the gateway with: lnetdctl ping %s; to list the routes, use: lnetdctl route show -v", r.Gateway)
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("this node has no NI on %s and no route to it", net),
			fmt.Sprintf("check the net's name, or add a route: lnetdctl route add --net %s --gateway NID", net)
	}
	return strings.Join(reasons, "; "), remedy
}

// waitsOn describes an NI on the net that waits for its interface, with the cause. It returns "" if
// no NI on the net waits.
func (b *backend) waitsOn(net lnet.Net) string {
	for _, w := range b.node.engines.waiting() {
		if w.Net == net {
			return fmt.Sprintf("NI %s is not up: %s", w.String(), w.cause)
		}
	}
	return ""
}

// whyDown returns why the routes through a gateway are down.
func (b *backend) whyDown(gateway lnet.NID) string {
	p, ok := b.node.Peer(gateway)
	if !ok || !p.State.Has(discovery.RouterDiscovered) {
		return "lnetd is still waiting for the first answer of the gateway"
	}
	for _, i := range p.NIs {
		if s := i.Trouble.String(); i.NID == gateway && s != "" {
			return "the gateway does not answer (" + s + ")"
		}
	}
	return "the gateway does not answer, or its NI on the net is down"
}
