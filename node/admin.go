package node

// Admin administers a node: routes, policies, fault rules, counters, health, peers and
// router buffers. Programs such as lnetd need it; programs that only send and receive do
// not. Node.Admin returns it. Its methods return the errors that Node describes, and are
// safe for concurrent use.
type Admin struct{ n *Node }

// Admin returns the administration of n. Every call returns an equal value.
func (n *Node) Admin() *Admin { return &Admin{n} }
