package multitude

import (
	"context"
	"errors"

	"github.com/lnetd/lnetd/internal/load/scale"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Run simulates n clients, and returns what the events cost. It must run in a bubble of testing/synctest.
func Run(n int) (*scale.Simulation, error) {
	s := &scale.Simulation{Nodes: n}
	return s, errors.Join(direct(s), routed(s))
}

// direct simulates clients that reach the server directly. Server and clients have two NIs.
func direct(s *scale.Simulation) (err error) {
	w := newWorld()
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.addServer(clientNets[:]...); err != nil {
		return err
	}
	if s.NodeBytes, err = w.addClients(s.Nodes, nil, clientNets[:]...); err != nil {
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

// coldStart makes each client send its first message, before which it discovers the server.
func (w *world) coldStart(s *scale.Simulation) error {
	m := w.begin()
	if _, err := w.sendAll(); err != nil {
		return err
	}
	ended, err := w.settle()
	s.Events = append(s.Events, m.end(scale.ColdStart, ended), w.idle())
	return err
}

// changeNID adds a NI to the server, which then sends its new list of NIDs to all clients.
func (w *world) changeNID(s *scale.Simulation) error {
	m := w.begin()
	if err := w.addNI(w.server, serverNet, serverHost); err != nil {
		return err
	}
	ended, err := w.settle()
	s.Events = append(s.Events, m.end(scale.ChangedNID, ended))
	return err
}

// loseRail cuts off the server's second NI. The driver notifies its node, but not its clients. Then
// each client sends a message.
func (w *world) loseRail(s *scale.Simulation) error {
	m := w.begin()
	rail := w.mesh.port(lnet.NIDFromNumber(clientNets[1], serverHost))
	rail.setLink(lnd.LinkDown)
	ended, err := w.sendAll()
	s.Events = append(s.Events, m.end(scale.LostRail, ended))
	return err
}

// routed simulates clients that reach the server through gateways, one of which dies.
func routed(s *scale.Simulation) (err error) {
	w := newWorld()
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.addServer(serverNet); err != nil {
		return err
	}
	var back, routes []node.NewRoute
	for k := range uint32(gatewaysCount) {
		if _, err := w.addNode(firstGateway+k, true, clientNets[0], serverNet); err != nil {
			return err
		}
		w.noteCentral(firstGateway+k, clientNets[0], serverNet)
		routes = append(routes, node.NewRoute{Net: serverNet, Gateway: lnet.NIDFromNumber(clientNets[0], firstGateway+k)})
		back = append(back, node.NewRoute{Net: clientNets[0], Gateway: lnet.NIDFromNumber(serverNet, firstGateway+k)})
	}
	errs, err := w.server.Admin().AddRoutes(context.Background(), back)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	if _, err := w.addClients(s.Nodes, routes, clientNets[0]); err != nil {
		return err
	}
	if _, err := w.sendAll(); err != nil {
		return err
	}
	if _, err := w.settle(); err != nil {
		return err
	}
	m := w.begin()
	for _, net := range []lnet.Net{clientNets[0], serverNet} {
		w.mesh.port(lnet.NIDFromNumber(net, firstGateway)).dead.Store(true)
	}
	ended, err := w.sendAll()
	s.Events = append(s.Events, m.end(scale.DeadGateway, ended))
	return err
}
