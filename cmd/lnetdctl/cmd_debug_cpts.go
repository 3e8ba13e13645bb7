package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/client"
)

func (p *program) debugCPTsCommand() *cobra.Command {
	return leaf(manual{
		use:   "cpts",
		short: "print the CPU partitions and their distances",
		long: `Each NUMA node with processors is a CPU partition (CPT). "distance" lists the distances
to the CPTs 0, 1, ... in order. lnetd prefers the NI that is nearest to the memory of a
message; "range" (numa_range) is the difference in distance that still counts as equally
near. "dev cpt" in "net show -v" is the CPT nearest to the device of an NI.`,
		example: "lnetdctl debug cpts",
	}, func(ctx context.Context) error {
		return show(p, errorForm{op: "show", entity: "cpts"}, classic,
			func(c *client.Client) (api.NUMA, error) { return c.NUMA(ctx) },
			func(n api.NUMA) any { return n },
			numaDocument)
	})
}

// numaDocument returns the document of "debug cpts" (lnetctl 11).
func numaDocument(n api.NUMA) mapping {
	cpts := sequence{}
	for k := range n.CPTs {
		c := &n.CPTs[k]
		m := mapping{{"cpt", number(c.CPT)}, {"node", number(c.Node)}}
		if c.CPUs != "" {
			m = append(m, entry{"cpus", quoted(c.CPUs)})
		}
		distances := make([]string, len(c.Distances))
		for k, d := range c.Distances {
			distances[k] = strconv.FormatUint(uint64(d), 10)
		}
		cpts = append(cpts, append(m, entry{"distance", quoted("[" + strings.Join(distances, ",") + "]")}))
	}
	return mapping{{"numa", mapping{{"range", number(n.Range)}, {"cpts", cpts}}}}
}
