package config

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// While the YAML library decodes a document, it needs about forty times the document's size. So a long
// list, such as the peers of a large site, is cut out of the document and decoded in pieces of whole
// items. The tree of a piece is discarded after its items have been read.

// pieceSize is the size in bytes from which a part of a list is decoded by itself. Shorter lists stay
// in the document.
const pieceSize = 64 << 10

// longList is a list that was cut out of a document.
type longList struct {
	text  []byte           // the lines of all items
	line  int              // the number of the first line
	lines int              // the number of lines
	dash  int              // the number of spaces before the dash of each item
	check func(item place) // reports the unknown keys of an item; nil if they are not reported
}

// cutLongLists returns the document without its long lists, and these lists by the line of their key. In
// the rest of the document there is an empty line for each line of a list, so that line numbers stay the
// same. A list is long if it has at least size bytes.
//
// A list is cut out only if it has the form of lnetctl's exports: its key and the next one are not
// indented, and all dashes have the same indentation. Documents with aliases of anchors, directives or
// unusual line breaks are not cut, because their pieces could have another meaning by themselves.
func cutLongLists(data []byte, size int) (rest []byte, lists map[int]*longList) {
	if !cuttable(data) {
		return data, nil
	}
	lists = map[int]*longList{}
	line, copied := 1, 0
	for at := 0; at < len(data); line++ {
		begins := at
		if at = lineEnd(data, at); !longListKey.Match(data[begins:at]) {
			continue
		}
		l := listAt(data[at:])
		if l == nil || len(l.text) < size {
			continue
		}
		lists[line], l.line = l, line+1
		rest = append(rest, data[copied:at]...)
		rest = append(rest, bytes.Repeat([]byte{'\n'}, l.lines)...)
		at, line = at+len(l.text), line+l.lines
		copied = at
	}
	return append(rest, data[copied:]...), lists
}

// longListKey matches the line of a key whose list may be long.
var longListKey = regexp.MustCompile(`^(?:peer|peers|route):[ \t]*(?:#.*)?\r?\n$`)

// cuttable reports whether lists may be cut out of a document.
func cuttable(data []byte) bool {
	for _, start := range []string{"\xff\xfe", "\xfe\xff", "%"} { // UTF-16, or a directive
		if bytes.HasPrefix(data, []byte(start)) {
			return false
		}
	}
	if mayHaveName(data, '&') && mayHaveName(data, '*') {
		return false
	}
	for _, text := range []string{"\n%", "\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(data, []byte(text)) {
			return false
		}
	}
	return bytes.Count(data, []byte("\r")) == bytes.Count(data, []byte("\r\n"))
}

// mayHaveName returns false if the document has no anchor, for the mark '&', or no alias, for the mark '*'. If
// it returns true, the mark may also be in a text or a comment.
func mayHaveName(data []byte, mark byte) bool {
	for at := 0; ; at++ {
		n := bytes.IndexByte(data[at:], mark)
		if n < 0 {
			return false
		}
		at += n
		within := at > 0 && (isLetter(data[at-1]) || '0' <= data[at-1] && data[at-1] <= '9')
		alone := at+1 == len(data) || bytes.IndexByte([]byte(" \t\r\n"), data[at+1]) >= 0
		if !within && !alone {
			return true
		}
	}
}

// lineEnd returns the offset behind the line that contains the offset at.
func lineEnd(data []byte, at int) int {
	if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(data)
}

// listAt returns the list with which the text begins, or nil if it does not have the form of an export.
// It does not set line.
func listAt(text []byte) *longList {
	l := longList{dash: -1}
	for at := 0; at < len(text); l.lines++ {
		line := text[at:lineEnd(text, at)]
		content := bytes.TrimLeft(line, " ")
		switch indent := len(line) - len(content); {
		case len(bytes.TrimSpace(content)) == 0 || content[0] == '#':
		case l.dash < 0 && startsItem(content):
			l.dash = indent
		case l.dash < 0:
			return nil
		case indent > l.dash || indent == l.dash && startsItem(content):
		case startsSection(line):
			l.text = text[:at]
			return &l
		default:
			return nil
		}
		at += len(line)
	}
	if l.dash < 0 {
		return nil
	}
	l.text = text
	return &l
}

// startsItem reports whether an item of a list begins at content, the rest of a line after its
// indentation.
func startsItem(content []byte) bool {
	return content[0] == '-' && (len(content) == 1 || bytes.IndexByte([]byte(" \r\n"), content[1]) >= 0)
}

// pieces returns the pieces of the list with the number of the first line of each. A piece consists of
// whole items, and has at least size bytes unless it is the last one.
func (l *longList) pieces(size int) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		dash := append(bytes.Repeat([]byte{' '}, l.dash), '-')
		from, line := 0, l.line
		for at := 0; at < len(l.text); {
			at = lineEnd(l.text, at)
			next := l.text[at:]
			if len(next) > 0 && (at-from < size || !bytes.HasPrefix(next, dash) || !startsItem(next[l.dash:])) {
				continue
			}
			if !yield(line, l.text[from:at]) {
				return
			}
			line += bytes.Count(l.text[from:at], []byte{'\n'})
			from = at
		}
	}
}

// attachLists records in r.lists the place in docs of each list that was cut out. It returns false if the
// key of one of them is not a key of a document, but for example text in quotes.
func (r *reading) attachLists(docs []*yaml.Node, lists map[int]*longList) bool {
	found := make(map[*yaml.Node]*longList, len(lists))
	for _, doc := range docs {
		if doc.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(doc.Content); i += 2 {
			key, value := doc.Content[i], doc.Content[i+1]
			l := lists[key.Line]
			if l == nil || key.Column != 1 {
				continue
			}
			if value.Kind != yaml.ScalarNode || value.Tag != "!!null" || value.Value != "" {
				return false
			}
			found[value] = l
		}
	}
	r.lists = found
	return len(found) == len(lists)
}

// eachItem calls read for each item of a list, in order. It accepts a key without a value, and reports a
// problem if there is a value that is not a list. Unlike optionalItems, it does not need the whole list in
// memory, and checks the keys of items that have not been checked before.
func (p place) eachItem(read func(item place)) {
	l := p.file.lists[p.node]
	if l == nil {
		for _, item := range p.optionalItems() {
			read(item)
		}
		return
	}
	if p.file.failed != nil {
		return
	}
	outside := p.file.suggestions
	defer func() { p.file.suggestions = outside }()
	index := 0
	for line, text := range l.pieces(p.file.pieceSize) {
		items, failed := p.file.decodePiece(l, line, text)
		if failed != nil {
			p.file.failed = failed
			return
		}
		p.file.suggestions = nil // those for the previous piece refer to its tree
		for _, n := range items {
			item := p.child(fmt.Sprintf("%s[%d]", p.path, index), n)
			if l.check != nil {
				l.check(item)
			}
			read(item)
			index++
		}
	}
}

// decodePiece returns the items of a piece of the list l. The piece begins at the given line of the document.
// If it is not valid YAML, or has too many values, decodePiece returns the problem.
func (r *reading) decodePiece(l *longList, line int, text []byte) ([]*yaml.Node, *Problem) {
	if (&tokenScanner{data: text}).parts() > partsAtOnceMax {
		return nil, r.tooManyAtOnce()
	}
	items, p := r.decodeItems(text, l.dash)
	if p != nil && p.Line > 0 {
		p.Line += line - 1
	}
	for _, n := range items {
		moveLines(n, line-1)
	}
	return items, p
}

// decodeItems returns the items of a list that is a whole YAML document and whose dashes follow the given
// number of spaces. Otherwise it returns the problem.
func (r *reading) decodeItems(text []byte, dash int) ([]*yaml.Node, *Problem) {
	if p := r.nested(text); p != nil {
		return nil, p
	}
	docs, err := r.decode(text)
	switch {
	case r.ctx.Err() != nil:
		return nil, nil
	case err != nil:
		return nil, r.diagnose(string(text), err)
	case len(docs) != 1 || docs[0].Kind != yaml.SequenceNode || docs[0].Column != dash+1:
		return nil, r.diagnose(string(text), errors.New("did not find expected '-' indicator"))
	}
	if at := findDeeper(docs[0], depthMax-1); at != nil {
		return nil, r.tooDeep(at.Line, at.Column)
	}
	return docs[0].Content, nil
}

// moveLines adds by to the line numbers of n and of the nodes below it.
func moveLines(n *yaml.Node, by int) {
	n.Line += by
	for _, below := range n.Content {
		moveLines(below, by)
	}
}
