package config

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SeqNos holds the sequence numbers that a document gives to its blocks with the key "seq_no". Errors
// about a block contain its number (lnetctl 11). A block is an item of a section, or a whole section that
// is not a list.
type SeqNos []seqNo

// seqNo is a block of a document, with its sequence number if the document gives one.
type seqNo struct {
	path   string // the path of the block, such as "net[0]" or "routing"
	line   int    // the first line of the block
	number int64
	has    bool // whether the block has a number
}

// ParseSeqNos returns the sequence numbers in a document. It returns nil if the document contains none
// or is not valid YAML.
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
		for section := range top.uncheckedMembers() {
			if section.value.node.Kind != yaml.SequenceNode && r.lists[section.value.node] == nil {
				n, has := section.value.seqNo()
				list = append(list, seqNo{section.value.path, section.at.node.Line, n, has})
				continue
			}
			section.value.eachItem(func(at place) {
				n, has := at.seqNo()
				list = append(list, seqNo{at.path, at.node.Line, n, has})
			})
		}
	}
	if r.failed != nil {
		return nil
	}
	return list
}

// Of returns the sequence number of the block that the problem p refers to. It returns false if the block
// does not have a number or is not found.
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

// seqNo returns the sequence number of a block, which may be at any depth within the block.
func (p place) seqNo() (int64, bool) { return p.numberUnder(seqNoKey) }

// warnDetails warns of each "detail" within the block, at any depth, that is not a number.
func (p place) warnDetails() {
	switch p.node.Kind {
	case yaml.SequenceNode:
		for _, item := range p.items() {
			item.warnDetails()
		}
	case yaml.MappingNode:
		for m := range p.uncheckedMembers() {
			if m.key != "detail" {
				m.value.warnDetails()
			} else if _, err := strconv.ParseInt(m.value.node.Value, 0, 64); err != nil {
				m.value.warn("ignoring the level of detail %q, which is not a number", m.value.node.Value).remedyf("write a number from 0 to 4")
			}
		}
	}
}

// numberUnder returns the first value of the given key that is a number, at any depth within the block.
// It ignores negative numbers, as the Multi-Rail design does. It returns false if it finds no number.
func (p place) numberUnder(key string) (int64, bool) {
	switch p.node.Kind {
	case yaml.SequenceNode:
		for _, item := range p.items() {
			if n, ok := item.numberUnder(key); ok {
				return n, true
			}
		}
	case yaml.MappingNode:
		for m := range p.uncheckedMembers() {
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
