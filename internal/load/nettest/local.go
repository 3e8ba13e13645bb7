package nettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lnetd/lnetd/internal/load/tmhost"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/transport"
)

// LocalMax is the maximum number of servers and of clients in a Local.
const LocalMax = 64

// The numbers of the transfer machines of a Local (transport 10.3). A console has one for clients and
// one for servers. Nodes use consecutive numbers from the given ones, for commands and for data.
const (
	consoleForClients = 298
	consoleForServers = 299
	clientCommands    = 1000
	clientData        = 1100
	serverCommands    = 1200
	serverData        = 1300
)

// Local is a set of servers and clients in this process, for a test whose console is in this process
// too.
type Local struct{ nodes []*Node }

// StartLocal starts servers and clients on their hosts, which may be the same host. It sets the
// addresses of the nodes in c, and the domain and addresses of a console on the clients' host. The
// caller must close the Local.
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

// Close closes the nodes.
func (l *Local) Close(ctx context.Context) error {
	var errs []error
	for _, n := range l.nodes {
		errs = append(errs, n.Close(ctx))
	}
	return errors.Join(errs...)
}
