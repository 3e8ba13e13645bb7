package api

import (
	"strconv"
	"strings"
)

// Problem is one error or warning about a document.
type Problem struct {
	// File is the name of the document. It may be empty.
	File string `json:"file"`
	// Line and Column count from 1. 0 means the whole file or the whole line.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Key is the path of keys that leads to the value with the problem, such as
	// "net[0].local NI(s)[1].tunables". It may be empty.
	Key string `json:"key,omitempty"`
	// Text describes the problem. Remedy is what the operator can do; it may be empty.
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	// SeqNo is the sequence number of the block with the problem. It is nil if the document does not
	// give one.
	SeqNo *int64 `json:"seq_no,omitempty"`
	// Warning reports whether this is only a warning, so that the document is not rejected because of
	// it.
	Warning bool `json:"warning,omitempty"`
}

// Error returns the problem as one line, "file:line:column: key: text; remedy". Empty parts are omitted.
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

// Problems is a list of all errors and warnings about documents, ordered by position. If it is used as an
// error, at least one of them is not a warning.
type Problems []*Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for k, one := range p {
		lines[k] = one.Error()
	}
	return strings.Join(lines, "\n")
}
