package topology

import (
	"fmt"
	"io"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// flowchart collects the lines of a mermaid flowchart.
type flowchart struct{ strings.Builder }

// node adds a node with lines of text. The shape is the pair of brackets, such as "[" and "]".
func (f *flowchart) node(id string, brackets [2]string, s State, lines ...string) {
	for k := range lines {
		lines[k] = mermaidEscape.Replace(lines[k])
	}
	fmt.Fprintf(f, "    %s%s\"%s\"%s:::%s\n", id, brackets[0], strings.Join(lines, "<br/>"), brackets[1], s)
}

// link adds a line between two nodes. Its style shows the state.
func (f *flowchart) link(from, to string, s State) {
	line := "---"
	switch s {
	case Degraded, Waiting:
		line = "-.-"
	case Down:
		line = "--x"
	}
	fmt.Fprintf(f, "    %s %s %s\n", from, line, to)
}

// mermaidEscape replaces characters that have a meaning within quoted text.
var mermaidEscape = strings.NewReplacer("#", "#35;", "&", "#38;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;")

var (
	box     = [2]string{"[", "]"}
	rounded = [2]string{"(", ")"}
	stadium = [2]string{"([", "])"}
)

// WriteMermaid writes the picture as a flowchart in the language mermaid. It returns the error of w.
func (p *Picture) WriteMermaid(w io.Writer) error {
	f := &flowchart{}
	f.WriteString("flowchart LR\n")
	nets := map[lnet.Net]string{}
	fmt.Fprintf(f, "    subgraph node[\"%s\"]\n", mermaidEscape.Replace(p.title()))
	for k := range p.Nets {
		for i := range p.Nets[k].NIs {
			n := &p.Nets[k].NIs[i]
			f.node(fmt.Sprintf("ni%d_%d", k, i), box, n.State, n.label(), stated(n.State, n.Detail))
		}
	}
	if p.OtherNIs.All > 0 {
		f.node("otherNIs", rounded, OK, "and "+plural(p.OtherNIs.All, "other NI"), p.OtherNIs.text())
	}
	f.WriteString("    end\n")
	for k := range p.Nets {
		n := &p.Nets[k]
		nets[n.Net] = fmt.Sprintf("net%d", k)
		f.node(nets[n.Net], stadium, n.State, "net "+n.Net.String(), string(n.State))
		for i := range n.NIs {
			f.link(fmt.Sprintf("ni%d_%d", k, i), nets[n.Net], n.NIs[i].State)
		}
	}
	for k := range p.RemoteNets {
		r := &p.RemoteNets[k]
		nets[r.Net] = fmt.Sprintf("remote%d", k)
		f.node(nets[r.Net], stadium, r.State, "remote net "+r.Net.String(), routesText(r))
	}
	if p.OtherRemoteNets > 0 {
		f.node("otherNets", rounded, OK, "and "+plural(p.OtherRemoteNets, "other remote net"))
	}
	p.mermaidPeers(f, nets)
	for _, s := range states {
		fmt.Fprintf(f, "    classDef %s stroke:%s,stroke-width:2px\n", s, colours[s])
	}
	_, err := io.WriteString(w, f.String())
	return err
}

func (p *Picture) mermaidPeers(f *flowchart, nets map[lnet.Net]string) {
	ids := map[lnet.NID]string{}
	for k := range p.Peers {
		one := &p.Peers[k]
		id := fmt.Sprintf("peer%d", k)
		name := one.Primary.String()
		if one.Gateway {
			name += ", gateway"
		}
		f.node(id, rounded, one.State, name, one.describe())
		for net, s := range one.nets() {
			if nets[net] != "" {
				f.link(nets[net], id, s)
			}
		}
		for i := range one.Rails {
			ids[one.Rails[i].NID] = id
		}
	}
	if p.OtherPeers.All > 0 {
		f.node("others", rounded, OK, "and "+plural(p.OtherPeers.All, "other"), p.OtherPeers.text())
	}
	for k := range p.RemoteNets {
		for _, r := range p.RemoteNets[k].Routes {
			if id := ids[r.Gateway]; id != "" {
				f.link(id, nets[p.RemoteNets[k].Net], r.State)
			}
		}
	}
}

// nets yields the nets of a peer in the order of its rails, each with the state of its rails there.
func (p *Peer) nets() func(yield func(lnet.Net, State) bool) {
	return func(yield func(lnet.Net, State) bool) {
		done := map[lnet.Net]bool{}
		for k := range p.Rails {
			net := p.Rails[k].NID.Net()
			if done[net] {
				continue
			}
			done[net] = true
			var parts []State
			for i := range p.Rails {
				if p.Rails[i].NID.Net() == net {
					parts = append(parts, p.Rails[i].State)
				}
			}
			if !yield(net, summary(parts)) {
				return
			}
		}
	}
}

func routesText(r *RemoteNet) string {
	up := 0
	for k := range r.Routes {
		if r.Routes[k].State == OK {
			up++
		}
	}
	if r.OtherRoutes > 0 {
		return fmt.Sprintf("%s, %s", r.State, plural(len(r.Routes)+r.OtherRoutes, "route"))
	}
	return fmt.Sprintf("%d of %s up", up, plural(len(r.Routes), "route"))
}
