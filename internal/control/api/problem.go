package api

import (
	"strconv"
	"strings"
)

// Problem is one mistake in a document, or something about it that its author should know.
type Problem struct {
	// File is what the document is called; it may be empty if the operator gave none.
	File string `json:"file"`
	// Line and Column count from 1; 0: the whole file, the whole line.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Key is the path of keys: "net[0].local NI(s)[1].tunables"; empty: none.
	Key string `json:"key,omitempty"`
	// Text says what is wrong, Remedy what would be right, if that is known.
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	// SeqNo is the number that the document's author has given to the block, if any.
	SeqNo *int64 `json:"seq_no,omitempty"`
	// Warning says that the document could be taken as it is.
	Warning bool `json:"warning,omitempty"`
}

// Error is "file:line:column: key: text; remedy", without what is not known.
func (p *Problem) Error() string {
	place := p.File
	for _, n := range []int{p.Line, p.Column} {
		if n > 0 {
			place = strings.TrimPrefix(place+":"+strconv.Itoa(n), ":")
		}
	}
	var parts []string
	for _, part := range []string{place, p.Key} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if p.Warning {
		parts = append(parts, "warning")
	}
	text := strings.Join(append(parts, p.Text), ": ")
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	return text
}

// Problems are all that was found in documents, in their order. As an error at least one is no
// warning.
type Problems []*Problem

// Error is a line for each.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for k, one := range p {
		lines[k] = one.Error()
	}
	return strings.Join(lines, "\n")
}
