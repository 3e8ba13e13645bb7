package config

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/control/api"
)

// Bounds of a document. They are checked before the YAML library reads it, so that a
// document costs time and memory in proportion to its size. A site with 20,000 peers of
// four NIDs and 20,000 routes uses two thirds of the parts and a third of the bytes.
const (
	// partsMax bounds what separates values: lines, commas, colons, dashes and brackets. A
	// value takes about 200 bytes while the document is read, and no document has more
	// values than parts.
	partsMax = 1_000_000
	// documentsMax bounds the documents of a stream.
	documentsMax = 1000
	// rulesMax bounds the rules of "udsp", those of "selection", and the NIs of a document: each
	// is compared with all before it.
	rulesMax = 1000
	// depthMax bounds the lists and mappings around a value. A configuration uses eight.
	depthMax = 64
	// aliasedMax bounds what aliases stand for, each time that one stands there: values,
	// and aliasedText bytes of text count as one.
	aliasedMax  = 100_000
	aliasedText = 64
	// keyMax bounds the bytes of one key in the path of a value.
	keyMax = 64
	// diagnosedMax bounds the bytes that are read again to find out why a document is no
	// YAML: one that is longer is read once.
	diagnosedMax = 1 << 20
)

// ReadFile reads a configuration file. It returns at most one byte more than a document may
// have, which Parse refuses.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, api.DocumentMax+1))
}

// measure returns what is too much of a document, or nil.
func (r *reading) measure(data []byte) *Problem {
	if len(data) > api.DocumentMax {
		return &Problem{File: r.name, Text: fmt.Sprintf("more than %d bytes", api.DocumentMax), Remedy: "split it"}
	}
	m := measuring{data: plainBytes(data)}
	switch {
	case m.parts() > partsMax:
		return &Problem{File: r.name, Text: fmt.Sprintf("more than %d lines and items", partsMax), Remedy: "split it"}
	case bytes.Count(m.data, []byte("\n---")) >= documentsMax:
		return &Problem{File: r.name, Text: fmt.Sprintf("more than %d documents", documentsMax), Remedy: "split it"}
	}
	return nil
}

// nested returns what is nested too deeply in a document, or nil.
func (r *reading) nested(data []byte) *Problem {
	m := measuring{data: plainBytes(data)}
	at := m.deep()
	if at < 0 {
		return nil
	}
	line := 1 + bytes.Count(m.data[:at], []byte("\n"))
	return r.tooDeep(line, at-bytes.LastIndexByte(m.data[:at], '\n'))
}

// plainBytes is a document without every other byte if it is UTF-16: what separates values
// is ASCII.
func plainBytes(data []byte) []byte {
	low := 0 // offset of the low byte
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")):
	case bytes.HasPrefix(data, []byte("\xfe\xff")):
		low = 1
	default:
		return data
	}
	plain := make([]byte, 0, len(data)/2)
	for k := low; k < len(data); k += 2 {
		plain = append(plain, data[k])
	}
	return plain
}

// few returns the items of a section, or its first rulesMax if it has more, which is a problem.
func few(section string, items []place) []place {
	if len(items) <= rulesMax {
		return items
	}
	items[rulesMax].wrong("more than %d items of %q", rulesMax, section).try("leave some out")
	return items[:rulesMax]
}

func (r *reading) tooDeep(line, column int) *Problem {
	return &Problem{
		File: r.name, Line: line, Column: column, Text: fmt.Sprintf("more than %d lists and mappings inside each other", depthMax),
		Remedy: "close brackets where they end",
	}
}

// measuring goes through a document that has not been read as YAML. It knows as much of
// YAML as it needs in order not to refuse a document for what stands in text.
type measuring struct {
	data  []byte
	depth int // brackets that are open
	dash  int // dashes at the beginning of the line
	quote byte
}

// parts is at least the number of values.
func (m *measuring) parts() (n int) {
	for k, c := range m.data {
		switch c {
		case '\n', '[':
			n++
		case ',', '{':
			n += 2 // a key and its value
		case '-', '?', ':':
			if m.ends(k + 1) {
				n++
			}
		}
	}
	return n
}

// ends reports whether a word that is no text ends before k.
func (m *measuring) ends(k int) bool {
	return k >= len(m.data) || bytes.IndexByte([]byte(" \t\r\n,[]{}\"'"), m.data[k]) >= 0
}

// deep is the place of the bracket or dash that is nested too deeply, or -1.
func (m *measuring) deep() int {
	begins := true // of a line
	for k := 0; k < len(m.data); k++ {
		switch c := m.data[k]; {
		case c == '\n':
			begins, m.dash = true, 0
			if k+1 < len(m.data) && isLetter(m.data[k+1]) { // a section begins
				m.depth, m.quote = 0, 0
			}
		case m.quote != 0:
			k += m.quoted(c)
		case c == '#' && m.fresh(k):
			if end := bytes.IndexByte(m.data[k:], '\n'); end >= 0 {
				k += end - 1
			} else {
				return -1
			}
		case (c == '-' || c == '?') && begins && m.ends(k+1):
			m.dash++
		case (c == '"' || c == '\'') && m.fresh(k):
			m.quote, begins = c, false
		case c == '[' || c == '{':
			m.depth++
			begins = false
		case c == ']' || c == '}':
			m.depth, begins = max(m.depth-1, 0), false
		case c != ' ' && c != '\t':
			begins = false
		}
		if m.depth+m.dash > depthMax {
			return k
		}
	}
	return -1
}

// fresh reports whether a value or a comment may begin at k.
func (m *measuring) fresh(k int) bool { return k == 0 || m.ends(k-1) }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// quoted takes a byte within quotes, and returns how many that follow belong to it.
func (m *measuring) quoted(c byte) int {
	switch {
	case c == '\\' && m.quote == '"':
		return 1
	case c == m.quote:
		m.quote = 0
	}
	return 0
}

// deeper is a value that has more than depth lists and mappings around it, or nil.
func deeper(n *yaml.Node, depth int) *yaml.Node {
	if len(n.Content) > 0 && depth == 0 {
		return n
	}
	for _, below := range n.Content {
		if at := deeper(below, depth-1); at != nil {
			return at
		}
	}
	return nil
}

// under is a reader that ends with ctx.
type under struct {
	ctx context.Context
	io.Reader
}

func (u under) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(b)
}
