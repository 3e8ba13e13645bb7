package config

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Bounds of a document. Most are checked before the YAML library reads the document, so that its time
// and memory are proportional to the document's size. The document of a site with 60,000 peers of four
// NIDs each and 60,000 routes has the permitted number of bytes.
const (
	// partsMax bounds the number of values in a document. Because the values cannot be counted before
	// the document is read, the separators between them are counted: lines, commas, colons, dashes
	// and brackets. A document of maximum size in the style of an export has about half as many.
	partsMax = 4_000_000
	// partsAtOnceMax bounds the number of values that are in memory at the same time: those of a
	// document without its long lists (see longList), and those of a piece of such a list. A value
	// takes about 200 bytes.
	partsAtOnceMax = 1_000_000
	// documentsMax bounds the YAML documents in one file, which "---" separates.
	documentsMax = 1000
	// rulesMax bounds three numbers in a document: the rules of "udsp", the rules of "selection",
	// and the NIs. Each rule or NI is compared with all earlier ones.
	rulesMax = 1000
	// depthMax bounds the number of lists and mappings that are nested around a value. Real
	// configurations have at most eight.
	depthMax = 64
	// aliasedMax bounds the values that all uses of YAML aliases in a document expand to. Each
	// aliasedText bytes of text count as one more value.
	aliasedMax  = 100_000
	aliasedText = 64
	// keyMax is the length in bytes to which a key is shortened in the path of a value.
	keyMax = 64
	// diagnosisMax is the size in bytes up to which a document that is not valid YAML is read
	// several times, to find further errors. A longer document is read only once.
	diagnosisMax = 1 << 20
)

// ReadFile returns the contents of a configuration file. If the file is longer than a document may be,
// ReadFile returns only the beginning, with a length that Parse rejects.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, api.DocumentMax+1))
}

// measure returns nil if the numbers of values and of YAML documents in data, a document without its long
// lists, are within the bounds. Otherwise it returns the problem to report. Lines that cutLongLists has
// emptied are not counted.
func (r *reading) measure(data []byte, emptied int) *Problem {
	m := tokenScanner{data: plainBytes(data)}
	switch {
	case m.parts()-emptied > partsAtOnceMax:
		return r.tooManyAtOnce()
	case bytes.Count(m.data, []byte("\n---")) >= documentsMax:
		return &Problem{File: r.name, Text: fmt.Sprintf("more than %d documents", documentsMax), Remedy: "split it"}
	}
	return nil
}

// measureAll returns nil if the number of values in a document is within the bound. Otherwise it returns the
// problem to report.
func (r *reading) measureAll(data []byte) *Problem {
	if (&tokenScanner{data: plainBytes(data)}).parts() <= partsMax {
		return nil
	}
	return &Problem{File: r.name, Text: fmt.Sprintf("more than %d lines and items", partsMax), Remedy: "split it"}
}

func (r *reading) tooManyAtOnce() *Problem {
	return &Problem{
		File: r.name, Text: fmt.Sprintf("more than %d lines and items must be read at once", partsAtOnceMax),
		Remedy: "write peers and routes as lists in the style of an export, without aliases, or split it",
	}
}

// nested returns nil if no value in the document is nested more deeply than depthMax. Otherwise it
// returns the problem to report.
func (r *reading) nested(data []byte) *Problem {
	m := tokenScanner{data: plainBytes(data)}
	at := m.findTooDeep()
	if at < 0 {
		return nil
	}
	line := 1 + bytes.Count(m.data[:at], []byte("\n"))
	return r.tooDeep(line, at-bytes.LastIndexByte(m.data[:at], '\n'))
}

// plainBytes returns the document in a form in which its separators are single bytes. It returns a
// UTF-8 document unchanged. For UTF-16 it returns only the low byte of each code unit, which suffices
// because all separators are ASCII.
func plainBytes(data []byte) []byte {
	low := 0 // offset of the low byte within a code unit
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

// limitItems returns the items of a section, but at most the first rulesMax. If the section has more,
// limitItems reports a problem.
func limitItems(section string, items []place) []place {
	if len(items) <= rulesMax {
		return items
	}
	items[rulesMax].problemf("more than %d items of %q", rulesMax, section).remedyf("leave some out")
	return items[:rulesMax]
}

func (r *reading) tooDeep(line, column int) *Problem {
	return &Problem{
		File: r.name, Line: line, Column: column, Text: fmt.Sprintf("more than %d lists and mappings inside each other", depthMax),
		Remedy: "close brackets where they end",
	}
}

// tokenScanner finds separators and brackets in a document before the YAML library parses it. It
// recognizes quotes and comments, so that a bracket within text does not count.
type tokenScanner struct {
	data  []byte
	depth int  // number of open brackets
	dash  int  // number of dashes at the beginning of the line
	quote byte // the quote character of the text that the scanner is in, or 0
}

// parts returns an upper bound of the number of values in the document.
func (m *tokenScanner) parts() (n int) {
	for k, c := range m.data {
		switch c {
		case '\n', '[':
			n++
		case ',', '{':
			n += 2 // a key and its value
		case '-', '?', ':':
			if m.tokenEnds(k + 1) {
				n++
			}
		}
	}
	return n
}

// tokenEnds reports whether a token that is not quoted ends just before offset k, because a blank or a
// separator is there, or the document ends.
func (m *tokenScanner) tokenEnds(k int) bool {
	return k >= len(m.data) || bytes.IndexByte([]byte(" \t\r\n,[]{}\"'"), m.data[k]) >= 0
}

// findTooDeep returns the offset of the first bracket or dash that is nested too deeply, or -1.
func (m *tokenScanner) findTooDeep() int {
	begins := true // at the beginning of a line
	for k := 0; k < len(m.data); k++ {
		switch c := m.data[k]; {
		case c == '\n':
			begins, m.dash = true, 0
			if k+1 < len(m.data) && isLetter(m.data[k+1]) { // a new section begins
				m.depth, m.quote = 0, 0
			}
		case m.quote != 0:
			k += m.quoted(c)
		case c == '#' && m.atValueStart(k):
			if end := bytes.IndexByte(m.data[k:], '\n'); end >= 0 {
				k += end - 1
			} else {
				return -1
			}
		case (c == '-' || c == '?') && begins && m.tokenEnds(k+1):
			m.dash++
		case (c == '"' || c == '\'') && m.atValueStart(k):
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

// atValueStart reports whether a value or a comment may begin at offset k, because a blank or a
// separator is before it.
func (m *tokenScanner) atValueStart(k int) bool { return k == 0 || m.tokenEnds(k-1) }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// quoted handles the byte c within quotes. It returns the number of bytes that the caller must skip:
// one after a backslash that escapes the next byte, otherwise 0.
func (m *tokenScanner) quoted(c byte) int {
	switch {
	case c == '\\' && m.quote == '"':
		return 1
	case c == m.quote:
		m.quote = 0
	}
	return 0
}

// findDeeper returns the first list or mapping within n that contains values and is nested in depth
// other ones, or nil. So if it returns nil, no value has more than depth lists and mappings around it.
func findDeeper(n *yaml.Node, depth int) *yaml.Node {
	if len(n.Content) > 0 && depth == 0 {
		return n
	}
	for _, below := range n.Content {
		if at := findDeeper(below, depth-1); at != nil {
			return at
		}
	}
	return nil
}

// ctxReader is a reader that fails once ctx is done.
type ctxReader struct {
	ctx context.Context
	io.Reader
}

func (u ctxReader) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(b)
}
