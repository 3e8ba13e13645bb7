package multitude

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lnetd/lnetd/internal/load/scale"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/lnet/portals"
	"github.com/lnetd/lnetd/node"
)

// Parameters of the simulations.
const (
	// arrivalTime is the time within which all clients send their message.
	arrivalTime = time.Second
	// quietTime is how long no message must arrive until an event counts as over.
	quietTime = 3 * time.Second
	// patience is the simulated time after which a simulation has failed.
	patience = 20 * time.Minute

	portal    = 20
	firstHost = 10<<24 + 1 // 10.0.0.1
	// Each server has so many hosts, the first of which is its own. The others are its gateways. The clients follow
	// after the servers.
	hostsPerServer = 3
	firstClient    = firstHost + hostsPerServer*MaxServers
)

// MaxServers is the maximum number of servers.
const MaxServers = 64

var clientNets = [...]lnet.Net{lnet.MakeNet(lnet.TypeTCP, 0), lnet.MakeNet(lnet.TypeTCP, 1)}

// serverNet is the net of servers behind gateways.
var serverNet = lnet.MakeNet(lnet.TypeTCP, 2)

// world is a network with its nodes.
type world struct {
	mesh    *mesh
	servers []*server
	clients []*client
	// central are the interfaces of servers and gateways.
	central  []*port
	nodes    []*node.Node
	answered atomic.Int64          // number of acknowledged messages
	failure  atomic.Pointer[error] // of the first message that has failed
	random   *rand.Rand
}

// server is a node to which clients send messages.
type server struct {
	host   uint32
	node   *node.Node
	target lnet.ProcessID  // for messages of clients
	routes []node.NewRoute // of the clients
}

// firstGateway returns the host of the first gateway.
func (s *server) firstGateway() uint32 { return s.host + 1 }

// client is a node that sends messages to a server.
type client struct {
	w      *world
	node   *node.Node
	server *server
}

// newWorld returns a network without nodes.
func newWorld() *world {
	return &world{mesh: &mesh{start: time.Now()}, random: rand.New(rand.NewPCG(1, 2))}
}

// addNode starts a node with NIs on the given nets. router makes it a router.
func (w *world) addNode(host uint32, router bool, nets ...lnet.Net) (*node.Node, error) {
	p := node.DefaultParameters()
	p.PeerNIsMax = 1 << 20
	n, err := node.New(node.Config{Parameters: &p, Routing: router, Seed: uint64(host)})
	if err != nil {
		return nil, err
	}
	w.nodes = append(w.nodes, n)
	for _, net := range nets {
		if err := w.addNI(n, net, host); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (w *world) addNI(n *node.Node, net lnet.Net, host uint32) error {
	_, err := n.AddNI(context.Background(), w.mesh, lnd.Config{Net: net, NID: lnet.NIDFromNumber(net, host)})
	return err
}

// addServer starts a server.
func (w *world) addServer(nets ...lnet.Net) (s *server, err error) {
	s = &server{host: uint32(firstHost + hostsPerServer*len(w.servers))}
	if s.node, err = w.addNode(s.host, false, nets...); err != nil {
		return nil, err
	}
	s.target = lnet.ProcessID{NID: lnet.NIDFromNumber(nets[0], s.host), PID: lnet.PIDLustre}
	w.servers = append(w.servers, s)
	w.noteCentral(s.host, nets...)
	_, err = s.node.Attach(portals.Entry{Portal: portal}, portals.MD{
		Threshold: portals.Unlimited, Options: portals.OpPut | portals.ManageRemote | portals.Truncate,
	})
	return s, err
}

// addGateways starts gateways between a server and its clients.
func (w *world) addGateways(s *server) error {
	var back []node.NewRoute
	for host := s.firstGateway(); host < s.host+hostsPerServer; host++ {
		if _, err := w.addNode(host, true, clientNets[0], serverNet); err != nil {
			return err
		}
		w.noteCentral(host, clientNets[0], serverNet)
		s.routes = append(s.routes, node.NewRoute{Net: serverNet, Gateway: lnet.NIDFromNumber(clientNets[0], host)})
		back = append(back, node.NewRoute{Net: clientNets[0], Gateway: lnet.NIDFromNumber(serverNet, host)})
	}
	return addRoutes(s.node, back)
}

func addRoutes(n *node.Node, routes []node.NewRoute) error {
	errs, err := n.Admin().AddRoutes(context.Background(), routes)
	return errors.Join(append(errs, err)...)
}

func (w *world) noteCentral(host uint32, nets ...lnet.Net) {
	for _, net := range nets {
		w.central = append(w.central, w.mesh.port(lnet.NIDFromNumber(net, host)))
	}
}

// addClients starts n clients and returns the memory that each takes.
func (w *world) addClients(n int, nets ...lnet.Net) (bytes float64, err error) {
	before := memoryInUse()
	for k := range n {
		c := &client{w: w, server: w.servers[k%len(w.servers)]}
		if c.node, err = w.addNode(uint32(firstClient+k), false, nets...); err != nil {
			return 0, err
		}
		if err := addRoutes(c.node, c.server.routes); err != nil {
			return 0, err
		}
		w.clients = append(w.clients, c)
	}
	return (memoryInUse() - before) / float64(n), nil
}

// HandleEvent implements portals.Handler.
func (c *client) HandleEvent(e *portals.Event) {
	switch {
	case e.Err != nil:
		c.w.fail(e.Err)
	case e.Type == portals.EventAck:
		c.w.answered.Add(1)
	}
}

// send sends a message to the client's server.
func (c *client) send() {
	h, err := c.node.Bind(portals.MD{Threshold: 2, Unlink: true, Handler: c})
	if err == nil {
		err = c.node.Put(h, c.server.target, node.PutOptions{Portal: portal, Ack: true})
	}
	if err != nil {
		c.w.fail(err)
	}
}

// fail records the failure of a message.
func (w *world) fail(err error) { w.failure.CompareAndSwap(nil, &err) }

// sendAll makes each client send a message within arrivalTime, and waits until all are acknowledged. It
// returns the time at which that was the case.
func (w *world) sendAll() (time.Time, error) {
	w.answered.Store(0)
	for _, c := range w.clients {
		time.AfterFunc(time.Duration(w.random.Int64N(int64(arrivalTime))), c.send)
	}
	err := w.await("messages are acknowledged", func() bool { return w.answered.Load() == int64(len(w.clients)) })
	return time.Now(), err
}

// settle waits until no message has arrived for quietTime. It returns when the last one has arrived, or
// when settle was called if none has arrived since.
func (w *world) settle() (time.Time, error) {
	began := time.Now()
	since := func() time.Duration {
		return min(time.Since(began), time.Since(w.mesh.start)-time.Duration(w.mesh.lastAt.Load()))
	}
	err := w.await("messages stop", func() bool { return since() >= quietTime })
	return time.Now().Add(-since()), err
}

// await waits until done returns true.
func (w *world) await(what string, done func() bool) error {
	for began := time.Now(); !done(); pause(10 * time.Millisecond) {
		if err := w.failure.Load(); err != nil {
			return fmt.Errorf("%s: after %v a message has failed: %w", what, time.Since(began), *err)
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
	}
	return nil
}

// pause waits for d.
func pause(d time.Duration) { <-time.After(d) }

// idle measures ten seconds without messages.
func (w *world) idle() scale.Event {
	const seconds = 10
	m := w.begin()
	pause(seconds * time.Second)
	e := m.end("idle second", m.at.Add(time.Second))
	e.Messages, e.Busiest, e.CPU = e.Messages/seconds, e.Busiest/seconds, e.CPU/seconds
	return e
}

// close closes all nodes.
func (w *world) close() (err error) {
	for _, n := range w.nodes {
		err = errors.Join(err, n.Close(context.Background()))
	}
	return err
}
