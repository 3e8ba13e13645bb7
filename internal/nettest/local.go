package nettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lnetd/lnetd/internal/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// LocalMax is how many nodes of a role a Local has at most.
const LocalMax = 64

// The numbers of the transfer machines of a Local, from which its nodes count on
// (transport 10.3).
const (
	consoleForClients = 298
	consoleForServers = 299
	clientCommands    = 1000
	clientData        = 1100
	serverCommands    = 1200
	serverData        = 1300
)

// Local are nodes in this process, to be tested by a console that is in it, too.
type Local struct{ nodes []*Node }

// StartLocal starts so many servers and clients on their hosts, which may be one, and puts
// their end points, and those of a console on the clients' host, into c.
func StartLocal(ctx context.Context, servers, clients int, serverHost, clientHost *tmhost.Host, c *ConsoleConfig, log *slog.Logger) (*Local, error) {
	l := &Local{}
	address := func(nid lnet.NID, id int) string {
		return transport.Address{NID: nid, PID: lnet.PIDLustre, Portal: Portal, TMID: uint16(id)}.String()
	}
	c.Domain = clientHost.Domain
	c.Servers.Console, c.Clients.Console = address(clientHost.NID, consoleForServers), address(clientHost.NID, consoleForClients)
	for _, side := range []struct {
		name           string
		n              int
		host           *tmhost.Host
		group          *Group
		commands, data int
	}{
		{"servers", servers, serverHost, &c.Servers, serverCommands, serverData},
		{"clients", clients, clientHost, &c.Clients, clientCommands, clientData},
	} {
		if side.n < 1 || side.n > LocalMax {
			return nil, errors.Join(fmt.Errorf("%d %s are not within 1 to %d", side.n, side.name, LocalMax), l.Close(ctx))
		}
		for k := range side.n {
			commands := address(side.host.NID, side.commands+k)
			n, err := StartNode(ctx, NodeConfig{Domain: side.host.Domain, Address: commands, Logger: log})
			if err != nil {
				return nil, errors.Join(err, l.Close(ctx))
			}
			l.nodes = append(l.nodes, n)
			side.group.Commands = append(side.group.Commands, commands)
			side.group.Data = append(side.group.Data, address(side.host.NID, side.data+k))
		}
	}
	return l, nil
}

// Close ends the nodes.
func (l *Local) Close(ctx context.Context) error {
	var errs []error
	for _, n := range l.nodes {
		errs = append(errs, n.Close(ctx))
	}
	return errors.Join(errs...)
}
