package node

// Admin administers a node: routes, policies, fault rules, counters, health, peers and
// router buffers. Programs such as lnetd need it; programs that only send and receive do
// not. Node.Admin returns it. If the Node was not created by New or Start, its methods
// return ErrNotMade or zero values. They are safe for concurrent use.
type Admin struct{ n *Node }

// Admin returns the Admin of n. The results of several calls are interchangeable.
func (n *Node) Admin() *Admin { return &Admin{n} }
