package discovery

// starts are the worlds that TestExplore starts from. Their budgets keep the full depth
// below a few million states each. Most known causes of stale NIDs need two changes and a
// loss. Those in which a NID is added again need four changes.
var starts = []start{
	{
		name: "two strangers", nets: []int{1, 2}, notices: true, steps: 6, full: 12,
		budget: budget{faults: 2, losses: 1, restarts: 1, changes: 2, sends: 2},
	},
	{
		name: "two strangers, unnoticed restarts", nets: []int{2, 2}, steps: 6, full: 12,
		budget: budget{faults: 2, losses: 1, restarts: 1, changes: 2, sends: 2},
	},
	{
		name: "two connected, faults", nets: []int{1, 2}, connected: true, notices: true, steps: 6, full: 12,
		budget: budget{faults: 3, losses: 1, restarts: 1, changes: 3, sends: 1},
	},
	{
		name: "two connected, changes", nets: []int{1, 2}, connected: true, notices: true, steps: 6, full: 12,
		budget: budget{faults: 4, changes: 4},
	},
	{
		name: "two connected, unnoticed restarts", nets: []int{2, 2}, connected: true, steps: 6, full: 12,
		budget: budget{faults: 3, losses: 1, restarts: 1, changes: 3, sends: 1},
	},
	{
		name: "two connected, one as two peers", nets: []int{1, 2}, connected: true, notices: true, configuration: asTwoPeers, steps: 4, full: 8,
		budget: budget{faults: 2, losses: 1, restarts: 1, changes: 1},
	},
	{
		name: "three strangers", nets: []int{1, 2, 2}, notices: true, steps: 4, full: 8,
		budget: budget{faults: 1, losses: 1, restarts: 1, changes: 1, sends: 2},
	},
	{
		name: "three connected", nets: []int{1, 2, 2}, connected: true, steps: 4, full: 8,
		budget: budget{faults: 2, losses: 1, restarts: 1, changes: 2, sends: 1},
	},
}

// asTwoPeers makes node 1 know node 0 as two peers. A push to the first one is late. It
// lists fewer NIDs of node 1 than the push to the second one, which has also left.
func asTwoPeers(w *network) {
	a, b := w.nodes[0], w.nodes[1]
	b.change(b.nid(1), 0)
	b.run(stepsToRest)
	b.change(b.nid(1), 1)
	b.run(stepsToRest)
	a.change(a.nid(1), 0)
	a.run(stepsToRest)
	for k := range w.messages {
		if l := &w.messages[k]; l.sender == a && l.kind == kindPush {
			l := w.remove(k)
			for way := range l.paths {
				if l.paths[way].from == a.nid(1) {
					l.read(way)
					break
				}
			}
			w.arrive(l)
			break
		}
	}
	b.m.ForcePushAll(w.now)
	for _, n := range w.nodes {
		n.run(stepsToRest)
	}
}
