package api

import (
	"strconv"
	"strings"
)

// Problem is one error or warning about a document.
type Problem struct {
	// File is the name of the document. It may be empty if the operator gave none.
	File string `json:"file"`
	// Line and Column count from 1. 0 means the whole file or the whole line.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Key is the path of keys, such as "net[0].local NI(s)[1].tunables", or empty.
	Key string `json:"key,omitempty"`
	// Text describes the problem, Remedy the solution if it is known.
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	// SeqNo is the sequence number of the block, if the document gives one.
	SeqNo *int64 `json:"seq_no,omitempty"`
	// Warning reports whether the document is valid in spite of the problem.
	Warning bool `json:"warning,omitempty"`
}

// Error returns "file:line:column: key: text; remedy" without the unknown parts.
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

// Problems are all problems found in documents, in the order of the text. A Problems value used as
// an error holds at least one that is not a warning.
type Problems []*Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for k, one := range p {
		lines[k] = one.Error()
	}
	return strings.Join(lines, "\n")
}
