package roundtrip

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// document is the part of an export that tests compare, full or not.
type document struct {
	Net []struct {
		Type string `yaml:"net type"`
		NIs  []struct {
			NID        string         `yaml:"nid"`
			Interfaces map[int]string `yaml:"interfaces"`
			Tunables   map[string]int `yaml:"tunables"`
			LND        map[string]any `yaml:"lnd tunables"`
			CPT        string         `yaml:"CPT"`
		} `yaml:"local NI(s)"`
	} `yaml:"net"`
	Route []struct {
		Net      string `yaml:"net"`
		Gateway  string `yaml:"gateway"`
		Hop      int    `yaml:"hop"`
		Priority int    `yaml:"priority"`
	} `yaml:"route"`
	Peer []struct {
		Primary   string `yaml:"primary nid"`
		MultiRail bool   `yaml:"Multi-Rail"`
		NIs       []struct {
			NID string `yaml:"nid"`
		} `yaml:"peer ni"`
	} `yaml:"peer"`
	Routing yaml.Node      `yaml:"routing"`
	Buffers map[string]int `yaml:"buffers"`
	Global  map[string]int `yaml:"global"`
	UDSP    []any          `yaml:"udsp"`
	Lnetd   map[string]any `yaml:"lnetd"`
}

// meaning is the configuration in a document.
type meaning struct {
	NIs     []string // "tcp 10.0.0.1@tcp [eth0] tunables", in order
	Routes  []string
	Peers   []string
	Forward bool
	Buffers map[string]int
	Global  map[string]int
	UDSP    []any
	Lnetd   map[string]any
}

// read parses a document.
func read(t *testing.T, text string) (d document) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d
}

// meaningOf returns the configuration in a document, with the NIDs of NIs if the document must
// contain them. The node itself is not a peer (decisions 97), although kernels export it as one.
func meaningOf(t *testing.T, text string, nids bool) meaning {
	t.Helper()
	d := read(t, text)
	m := meaning{Buffers: d.Buffers, Global: d.Global, UDSP: d.UDSP, Lnetd: d.Lnetd, Forward: forwards(t, &d.Routing)}
	own := map[string]bool{"0@lo": true}
	for _, n := range d.Net {
		for _, ni := range n.NIs {
			if n.Type == "lo" {
				continue
			}
			own[ni.NID] = true
			if !nids {
				ni.NID = ""
			}
			delete(ni.LND, "timeout") // derived from the parameters
			m.NIs = append(m.NIs, fmt.Sprint(n.Type, ni.NID, ni.Interfaces, ni.Tunables, ni.LND, ni.CPT))
		}
	}
	for _, r := range d.Route {
		m.Routes = append(m.Routes, fmt.Sprint(r))
	}
	for _, p := range d.Peer {
		if own[p.Primary] {
			continue
		}
		others := []string{}
		for _, ni := range p.NIs {
			if !own[ni.NID] && ni.NID != p.Primary {
				others = append(others, ni.NID)
			}
		}
		slices.Sort(others)
		m.Peers = append(m.Peers, fmt.Sprint(p.Primary, p.MultiRail, others))
	}
	slices.Sort(m.Routes)
	slices.Sort(m.Peers)
	return m
}

// forwards reads "routing" in both of its forms, and reports whether the node forwards or is
// starting to.
func forwards(t *testing.T, n *yaml.Node) bool {
	t.Helper()
	var list []map[string]any
	if n.Kind == yaml.MappingNode {
		list = make([]map[string]any, 1)
		if err := n.Decode(&list[0]); err != nil {
			t.Fatal(err)
		}
	} else if n.Kind != 0 {
		if err := n.Decode(&list); err != nil {
			t.Fatal(err)
		}
	}
	on := false
	for _, item := range list {
		if state, ok := item["enable"]; ok {
			on = state == 1 || state == 3
		}
	}
	return on
}

// interfacesOf returns the interfaces of the node with this full export, with the
// addresses of the NIDs.
func interfacesOf(t *testing.T, text string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, n := range read(t, text).Net {
		for _, ni := range n.NIs {
			dev := ni.Interfaces[0]
			address, _, _ := strings.Cut(ni.NID, "@")
			switch {
			case dev == "":
				continue
			case strings.Contains(address, ":"):
				// The interface has an IPv4 address, which is not the NID.
				all[dev] = append(all[dev], address+"/64", "192.168.77.1/24")
			default:
				all[dev] = append(all[dev], address+"/24")
			}
		}
	}
	return all
}
