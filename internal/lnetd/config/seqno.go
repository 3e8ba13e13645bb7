package config

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SeqNos holds the sequence numbers that a document gives to its blocks. Errors about a block
// contain its number (lnetctl 11). A block is an item of a section, or a section without items.
type SeqNos []seqNo

// seqNo is a block, with its number if it has one.
type seqNo struct {
	path   string // "net[0]", "routing"
	line   int
	number int64
	has    bool
}

// ParseSeqNos returns the sequence numbers in a document, or nil if the document cannot be read.
func ParseSeqNos(ctx context.Context, data []byte) (list SeqNos) {
	if !bytes.Contains(data, []byte(seqNoKey)) {
		return nil
	}
	r := newReading(ctx, "", nil)
	for _, doc := range r.documents(data) {
		top := (place{file: r}).child("", doc)
		if top.node.Kind != yaml.MappingNode {
			continue
		}
		for _, section := range top.uncheckedMembers() {
			if section.value.node.Kind != yaml.SequenceNode {
				n, has := section.value.seqNo()
				list = append(list, seqNo{section.value.path, section.at.node.Line, n, has})
				continue
			}
			for _, at := range section.value.items() {
				n, has := at.seqNo()
				list = append(list, seqNo{at.path, at.node.Line, n, has})
			}
		}
	}
	return list
}

// Of returns the number of the block that a problem refers to, if it has one.
func (l SeqNos) Of(p *Problem) (int64, bool) {
	for _, b := range slices.Backward(l) { // a section may occur several times
		rest, ok := strings.CutPrefix(p.Key, b.path)
		if ok && (rest == "" || strings.ContainsAny(rest[:1], ".[:")) && (p.Line == 0 || b.line <= p.Line) {
			return b.number, b.has
		}
	}
	return 0, false
}

const seqNoKey = "seq_no"

// seqNo returns the sequence number in a block, at any depth.
func (p place) seqNo() (int64, bool) { return p.numberUnder(seqNoKey) }

// numberUnder returns the first number under a key in a block, at any depth. Negative numbers are
// ignored, as in the interface of the design.
func (p place) numberUnder(key string) (int64, bool) {
	switch p.node.Kind {
	case yaml.SequenceNode:
		for _, item := range p.items() {
			if n, ok := item.numberUnder(key); ok {
				return n, true
			}
		}
	case yaml.MappingNode:
		for _, m := range p.uncheckedMembers() {
			if m.key != key {
				if n, ok := m.value.numberUnder(key); ok {
					return n, true
				}
			} else if n, err := strconv.ParseInt(m.value.node.Value, 0, 64); err == nil && n >= 0 {
				return n, true
			}
		}
	}
	return 0, false
}
