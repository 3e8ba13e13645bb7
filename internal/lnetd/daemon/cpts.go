package daemon

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node/numa"
)

// knownCPTs returns those of the NI's CPU partitions that exist on a host with has partitions. It
// returns nil, which means all partitions, if the NI names all existing partitions or only
// nonexistent ones.
func knownCPTs(ni *config.NI, has int) []int {
	known := slices.DeleteFunc(slices.Clone(ni.CPTs), func(c int) bool { return c >= has })
	if len(known) == has || len(known) == 0 {
		return nil
	}
	return known
}

// unknownCPTs returns those of the NI's CPU partitions that do not exist on a host with has
// partitions.
func unknownCPTs(ni *config.NI, has int) []int {
	return slices.DeleteFunc(slices.Clone(ni.CPTs), func(c int) bool { return c < has })
}

// warnOfCPTs returns a warning for each NI of the document name whose CPU partitions do not all exist
// on this host, which has partitions 0 to has-1. Such a document may be the export of a larger host.
func warnOfCPTs(name string, nis []config.NI, has int) (warnings config.Problems) {
	for k := range nis {
		ni := &nis[k]
		unknown := unknownCPTs(ni, has)
		if len(unknown) == 0 {
			continue
		}
		what := fmt.Sprintf("CPU partition %d", unknown[0])
		if len(unknown) > 1 {
			what += fmt.Sprintf(" and %d more", len(unknown)-1)
		}
		text := fmt.Sprintf("NI %s: ignoring %s: this host has the partitions 0 to %d", ni, what, has-1)
		warnings = append(warnings, config.ProblemAt(name, ni.Where, text, ""))
	}
	return warnings
}

// logCPTs logs a warning for each NI whose configured CPU partitions do not all exist on this host.
func (e *engines) logCPTs(nis []config.NI) {
	for k := range nis {
		if ni := &nis[k]; len(unknownCPTs(ni, e.cpts)) > 0 {
			e.log.Warn("ignoring configured CPU partitions that this host does not have", "ni", ni.String(), "configured_cpts", ni.CPTs, "host_cpts", e.cpts)
		}
	}
}

// ForeseeCPTs returns a warning for each NI of s whose CPU partitions do not all exist on the host
// that sysfs describes. The configuration s was read from file. If the NUMA layout cannot be read,
// ForeseeCPTs returns nil.
func ForeseeCPTs(file string, s *config.State, sysfs fs.FS) config.Problems {
	m, err := numa.Read(sysfs)
	if err != nil {
		return nil // lnetd logs this when it starts
	}
	return warnOfCPTs(file, s.NIs, m.CPTs())
}

// CPTs implements server.Backend.
func (b *backend) CPTs() []api.CPT {
	layout := []numa.CPT{{Distances: []uint32{numa.LocalDistance}}}
	if m := b.node.machine; m != nil {
		layout = m.Layout()
	}
	all := make([]api.CPT, len(layout))
	for k, c := range layout {
		all[k] = api.CPT{CPT: k, Node: c.Node, CPUs: shortList(c.CPUs), Distances: c.Distances}
	}
	return all
}

// shortList formats sorted numbers in the short form that the kernel uses: "0-3,8".
func shortList(numbers []int) string {
	var parts []string
	for k := 0; k < len(numbers); {
		end := k + 1
		for end < len(numbers) && numbers[end] == numbers[end-1]+1 {
			end++
		}
		part := strconv.Itoa(numbers[k])
		if end > k+1 {
			part += "-" + strconv.Itoa(numbers[end-1])
		}
		parts, k = append(parts, part), end
	}
	return strings.Join(parts, ",")
}

// checkCPTs returns an error for an operator if one of the NIs has a CPU partition that this host
// does not have.
func (e *engines) checkCPTs(nis []config.NI) error {
	for k := range nis {
		if unknown := unknownCPTs(&nis[k], e.cpts); len(unknown) > 0 {
			return netRefused(syscall.ERANGE, "invalid CPT set", fmt.Sprintf("CPU partition %d does not exist", unknown[0]),
				fmt.Sprintf("this host has the partitions 0 to %d", e.cpts-1))
		}
	}
	return nil
}

// shownCPTs formats the CPU partitions of the NI with the given NID as lnetctl does: "[0,1]". An NI
// without configured partitions has all of them.
func (e *engines) shownCPTs(nid lnet.NID) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.nis {
		if l := &e.nis[k]; l.Own == nid && l.CPTs != nil {
			return listCPTs(l.CPTs)
		}
	}
	return allCPTs(e.cpts)
}
