package multitude

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/internal/load/scale"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// Run simulates n clients, and returns what the events cost. There is a number of servers, at most MaxServers, each for
// an equal share of the clients. Run must be called in a bubble of testing/synctest. It returns an error if there are no
// clients, no servers or too many servers, or if a message fails.
func Run(n, servers int) (*scale.Simulation, error) {
	if n < 1 || servers < 1 || servers > MaxServers {
		return nil, fmt.Errorf("%d clients of %d servers: want at least one client, and 1 to %d servers", n, servers, MaxServers)
	}
	s := &scale.Simulation{Nodes: n, Servers: servers}
	return s, errors.Join(direct(s), routed(s))
}

// direct simulates clients that reach their server directly. Servers and clients have two NIs.
func direct(s *scale.Simulation) (err error) {
	w := newWorld()
	defer func() { err = errors.Join(err, w.close()) }()
	for range s.Servers {
		if _, err := w.addServer(clientNets[:]...); err != nil {
			return err
		}
	}
	if s.NodeBytes, err = w.addClients(s.Nodes, clientNets[:]...); err != nil {
		return err
	}
	before := memoryInUse()
	for _, event := range []func(*scale.Simulation) error{w.coldStart, w.changeNID, w.loseRail} {
		if err := event(s); err != nil {
			return err
		}
	}
	s.PeerBytes = (memoryInUse() - before) / float64(s.Nodes)
	return nil
}

// coldStart makes each client send its first message, before which it discovers its server.
func (w *world) coldStart(s *scale.Simulation) error {
	m := w.begin()
	if _, err := w.sendAll(); err != nil {
		return err
	}
	ended, err := w.settle()
	s.Events = append(s.Events, m.end(scale.ColdStart, ended), w.idle())
	return err
}

// changeNID adds a NI to each server, which then sends its new list of NIDs to its clients.
func (w *world) changeNID(s *scale.Simulation) error {
	m := w.begin()
	for _, server := range w.servers {
		if err := w.addNI(server.node, serverNet, server.host); err != nil {
			return err
		}
	}
	ended, err := w.settle()
	s.Events = append(s.Events, m.end(scale.ChangedNID, ended))
	return err
}

// loseRail cuts off the second NI of each server. The driver notifies its node, but not the clients. Then each
// client sends a message.
func (w *world) loseRail(s *scale.Simulation) error {
	m := w.begin()
	for _, server := range w.servers {
		w.mesh.port(lnet.NIDFromNumber(clientNets[1], server.host)).setLink(lnd.LinkDown)
	}
	ended, err := w.sendAll()
	s.Events = append(s.Events, m.end(scale.LostRail, ended))
	return err
}

// routed simulates clients that reach their server through two gateways, one of which dies.
func routed(s *scale.Simulation) (err error) {
	w := newWorld()
	defer func() { err = errors.Join(err, w.close()) }()
	for range s.Servers {
		server, err := w.addServer(serverNet)
		if err != nil {
			return err
		}
		if err := w.addGateways(server); err != nil {
			return err
		}
	}
	if _, err := w.addClients(s.Nodes, clientNets[0]); err != nil {
		return err
	}
	if _, err := w.sendAll(); err != nil {
		return err
	}
	if _, err := w.settle(); err != nil {
		return err
	}
	m := w.begin()
	for _, server := range w.servers {
		for _, net := range []lnet.Net{clientNets[0], serverNet} {
			w.mesh.port(lnet.NIDFromNumber(net, server.firstGateway())).dead.Store(true)
		}
	}
	ended, err := w.sendAll()
	s.Events = append(s.Events, m.end(scale.DeadGateway, ended))
	return err
}
