package api

// NUMA is the reply to GET /v1/numa: the NUMA layout of the host, and the distance up to which NIs
// count as equally near to memory.
type NUMA struct {
	// Range is the parameter numa_range.
	Range int64 `json:"range"`
	CPTs  []CPT `json:"cpts"`
}

// CPT is one CPU partition of the machine.
type CPT struct {
	CPT int `json:"cpt"`
	// Node is the number of the NUMA node that the partition consists of.
	Node int `json:"node"`
	// CPUs are its processors, such as "0-3,8". It is empty if the host does not report them.
	CPUs string `json:"cpus,omitempty"`
	// Distances are the NUMA distances from this partition to all partitions, including itself, in the
	// order of their numbers.
	Distances []uint32 `json:"distances"`
}
