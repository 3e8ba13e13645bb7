package api

// NUMA is the reply to GET /v1/numa: how the machine is laid out, and how far apart NIs may be that
// count as equally near to memory.
type NUMA struct {
	// Range is the parameter numa_range.
	Range int64 `json:"range"`
	CPTs  []CPT `json:"cpts"`
}

// CPT is one CPU partition of the machine.
type CPT struct {
	CPT int `json:"cpt"`
	// Node is the number of its NUMA node.
	Node int `json:"node"`
	// CPUs are its processors, "0-3,8"; empty if the machine does not say.
	CPUs string `json:"cpus,omitempty"`
	// Distances are those to all CPTs in order, itself included: the largest between a node of one
	// and a node of the other.
	Distances []uint32 `json:"distances"`
}
