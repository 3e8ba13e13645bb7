package topology

import (
	"fmt"
	"io"
	"strings"
)

// branch is a line of a tree, with the lines below it.
type branch struct {
	text  string
	below []*branch
}

func (b *branch) add(format string, args ...any) *branch {
	one := &branch{text: fmt.Sprintf(format, args...)}
	b.below = append(b.below, one)
	return one
}

// write appends the branches below b, each line with the prefix.
func (b *branch) write(to *strings.Builder, prefix string) {
	for k, one := range b.below {
		mark, more := "├─ ", "│  "
		if k == len(b.below)-1 {
			mark, more = "└─ ", "   "
		}
		to.WriteString(prefix + mark + one.text + "\n")
		one.write(to, prefix+more)
	}
}

// WriteTree writes the picture as a tree of lines. Each line ends with the state of what it names. It returns the
// error of w.
func (p *Picture) WriteTree(w io.Writer) error {
	root := &branch{text: p.title()}
	for k := range p.Nets {
		n := &p.Nets[k]
		net := root.add("net %s: %s", n.Net, n.State)
		for i := range n.NIs {
			net.add("NI %s: %s", n.NIs[i].label(), stated(n.NIs[i].State, n.NIs[i].Detail))
		}
	}
	if p.OtherNIs.All > 0 {
		root.add("and %s: %s", plural(p.OtherNIs.All, "other NI"), p.OtherNIs.text())
	}
	p.addPeers(root)
	for k := range p.RemoteNets {
		r := &p.RemoteNets[k]
		net := root.add("remote net %s: %s", r.Net, r.State)
		for i := range r.Routes {
			net.add("through %s%s: %s", r.Routes[i].Gateway, r.Routes[i].properties(), upOrDown(r.Routes[i].State))
		}
		if r.OtherRoutes > 0 {
			net.add("and %s", plural(r.OtherRoutes, "other route"))
		}
	}
	if p.OtherRemoteNets > 0 {
		root.add("and %s", plural(p.OtherRemoteNets, "other remote net"))
	}
	var b strings.Builder
	b.WriteString(root.text + "\n")
	root.write(&b, "")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *Picture) addPeers(root *branch) {
	all := p.AllPeers()
	if all.All == 0 {
		root.add("no peers")
		return
	}
	peers := root.add("%s: %s", plural(all.All, "peer"), all.text())
	for k := range p.Peers {
		one := &p.Peers[k]
		name := one.Primary.String()
		if one.Gateway {
			name += " (gateway)"
		}
		peer := peers.add("%s: %s", name, one.describe())
		if len(one.Rails) == 1 && one.OtherRails == 0 {
			continue
		}
		for i := range one.Rails {
			peer.add("%s: %s", one.Rails[i].NID, stated(one.Rails[i].State, one.Rails[i].Detail))
		}
		if one.OtherRails > 0 {
			peer.add("and %s", plural(one.OtherRails, "other NID"))
		}
	}
	if p.OtherPeers.All > 0 {
		peers.add("and %s: %s", plural(p.OtherPeers.All, "other"), p.OtherPeers.text())
	}
}

// title names the node.
func (p *Picture) title() string {
	name := "this node"
	if !p.Node.IsZero() {
		name = p.Node.String() + " (this node)"
	}
	if p.Router {
		name += ", router"
	}
	return name
}

// label returns the name of an NI with its interface.
func (n *NI) label() string {
	if n.Interface == "" || strings.Contains(n.Name, "("+n.Interface+")") {
		return n.Name
	}
	return n.Name + " (" + n.Interface + ")"
}

// describe returns the state of a peer, with the reason if it has only one rail.
func (p *Peer) describe() string {
	if len(p.Rails) == 1 && p.OtherRails == 0 {
		return stated(p.State, p.Rails[0].Detail)
	}
	if p.State == OK {
		return string(OK)
	}
	bad := 0
	for k := range p.Rails {
		if p.Rails[k].State != OK {
			bad++
		}
	}
	return fmt.Sprintf("%s, %d of %s not ok", p.State, bad, plural(len(p.Rails)+p.OtherRails, "NID"))
}

func (r *Route) properties() string {
	var all []string
	if r.Hops > 0 {
		all = append(all, fmt.Sprintf("hops %d", r.Hops))
	}
	if r.Priority > 0 {
		all = append(all, fmt.Sprintf("priority %d", r.Priority))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

func (c *NICounts) text() string { return grouped(c.Up) + " up, " + grouped(c.All-c.Up) + " not up" }

func (c *Counts) text() string {
	s := grouped(c.OK) + " ok"
	if c.Degraded > 0 {
		s += ", " + grouped(c.Degraded) + " degraded"
	}
	if c.Down > 0 {
		s += ", " + grouped(c.Down) + " down"
	}
	return s
}

func stated(s State, detail string) string {
	if detail == "" || detail == string(s) {
		return string(s)
	}
	return string(s) + ", " + detail
}

// upOrDown returns the state of a route in LNet's words.
func upOrDown(s State) string {
	if s == Down {
		return "down"
	}
	return "up"
}

// plural returns a number with a noun: "1 peer", "2 peers".
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return grouped(n) + " " + noun
}

// grouped returns a number with a comma between groups of three digits.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for k := len(s) - 3; k > 0; k -= 3 {
		s = s[:k] + "," + s[k:]
	}
	return s
}
