package config

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// file is a configuration file as it was written: its shape is right, its
// values have not been judged.
type file struct {
	nets    []fileNet
	globals fileGlobals
	lnetd   fileLnetd
}

// fileNet is an item of "net".
type fileNet struct {
	at   place
	name place  // net type
	own  fileNI // interfaces and tunables directly under the net
	nis  []fileNI
	list bool // "local NI(s)" is there
}

// fileNI is an item of "local NI(s)".
type fileNI struct {
	at         place
	interfaces []place
	nid        *place
	tunables   *fileTunables
	lnd        *fileLND
}

// fileTunables is "tunables"; nil: not there.
type fileTunables struct {
	peerTimeout, peerCredits, peerBufferCredits, credits *int
}

// fileLND is "lnd tunables"; nil: not there.
type fileLND struct {
	connsPerPeer, tos *place
}

// fileGlobals holds values of "global" by key.
type fileGlobals map[string]place

// fileLnetd holds values of "lnetd" by key, and of "lnetd.socklnd".
type fileLnetd struct {
	own     map[string]place
	socklnd map[string]place
}

// Sections of lnetctl's files that this version reads over.
var unsupported = map[string]bool{
	"route": true, "routing": true, "buffers": true, "peer": true, "udsp": true,
	"ip2nets": true, "statistics": true, "numa": true,
}

// read reads all documents of a file.
func (r *reading) read(data []byte) file {
	f := file{
		globals: fileGlobals{},
		lnetd:   fileLnetd{own: map[string]place{}, socklnd: map[string]place{}},
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return f
		}
		if err != nil {
			r.problems = append(r.problems, &problem{file: r.name, text: err.Error()})
			return f
		}
		if len(doc.Content) == 0 {
			continue
		}
		if top := (place{file: r}).below("", doc.Content[0]); !top.empty() {
			f.sections(top)
		}
	}
}

func (f *file) sections(top place) {
	// A section may stand twice: lnetctl applies one after the other.
	for _, m := range top.members(true) {
		switch {
		case m.key == "net":
			for _, item := range m.value.optionalItems() {
				f.nets = append(f.nets, readNet(item))
			}
		case m.key == "global":
			for _, g := range m.value.optionalMembers() {
				if globalKeys[g.key] == nil {
					g.value.warn("unknown key, ignored")
					continue
				}
				f.globals[g.key] = g.value
			}
		case globalKeys[m.key] != nil: // the older form
			f.globals[m.key] = m.value
		case m.key == "lnetd":
			f.lnetd.read(m.value)
		case unsupported[m.key]:
			m.value.warn("this section is not supported yet and has no effect")
		default:
			m.value.warn("unknown section, ignored")
		}
	}
}

// optionalItems are the items of a list that may be left empty.
func (p place) optionalItems() []place {
	if p.empty() {
		return nil
	}
	return p.items()
}

// optionalMembers are the members of a mapping that may be left empty.
func (p place) optionalMembers() []member {
	if p.empty() {
		return nil
	}
	return p.members(false)
}

// readNet reads an item of "net". Keys that describe no configuration, such as
// statistics in a full export, are passed over.
func readNet(at place) fileNet {
	n := fileNet{at: at, name: at, own: fileNI{at: at}}
	named := false
	for _, m := range at.members(false) {
		switch m.key {
		case "net type":
			n.name, named = m.value, true
		case "local NI(s)":
			n.list = true
			for _, item := range m.value.optionalItems() {
				ni := fileNI{at: item}
				for _, m := range item.members(false) {
					ni.member(m)
				}
				n.nis = append(n.nis, ni)
			}
		default:
			n.own.member(m)
		}
	}
	if !named && at.node.Kind == yaml.MappingNode {
		at.wrong("the key \"net type\" is missing")
	}
	return n
}

// member takes a key of an NI.
func (ni *fileNI) member(m member) {
	switch m.key {
	case "interfaces":
		if m.value.node.Kind == yaml.SequenceNode {
			ni.interfaces = m.value.items()
			return
		}
		for _, i := range m.value.optionalMembers() {
			ni.interfaces = append(ni.interfaces, i.value)
		}
	case "nid":
		ni.nid = &m.value
	case "tunables":
		ni.tunables = readTunables(m.value)
	case "lnd tunables":
		ni.lnd = readLND(m.value)
	}
}

func readTunables(at place) *fileTunables {
	t := &fileTunables{}
	for _, m := range at.optionalMembers() {
		var into **int
		switch m.key {
		case "peer_timeout":
			into = &t.peerTimeout
		case "peer_credits":
			into = &t.peerCredits
		case "peer_buffer_credits":
			into = &t.peerBufferCredits
		case "credits":
			into = &t.credits
		default:
			m.value.warn("Ignoring unrecognized key '%s' for 'tunables'", m.key)
			continue
		}
		if v, ok := m.value.number(-1, 1<<24); ok {
			*into = &v
		}
	}
	return t
}

func readLND(at place) *fileLND {
	t := &fileLND{}
	for _, m := range at.optionalMembers() {
		switch m.key {
		case "conns_per_peer":
			t.connsPerPeer = &m.value
		case "tos":
			t.tos = &m.value
		case "timeout": // derived, only shown
		default:
			m.value.warn("Ignoring unrecognized key '%s' for 'lnd tunables'", m.key)
		}
	}
	return t
}

// read takes the section "lnetd". Keys here are our own: an unknown one is a
// mistake.
func (l *fileLnetd) read(at place) {
	for _, m := range at.optionalMembers() {
		switch {
		case m.key == "socklnd":
			for _, s := range m.value.optionalMembers() {
				if socklndKeys[s.key] == nil {
					s.value.wrong("unknown key")
					continue
				}
				l.socklnd[s.key] = s.value
			}
		case lnetdKeys[m.key] != nil:
			l.own[m.key] = m.value
		default:
			m.value.wrong("unknown key")
		}
	}
}
