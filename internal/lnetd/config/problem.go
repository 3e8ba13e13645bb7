package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Problem is an error or a warning about a document.
type Problem = api.Problem

// Problems is a list of errors and warnings about a document. It is an error itself.
type Problems = api.Problems

// ProblemAt returns a problem in the document name. The argument where is the position of the entry,
// "name:line: key", or any text that names an entry without a position.
func ProblemAt(name, where, text, remedy string) *Problem {
	p := &Problem{File: name, Key: where, Text: text, Remedy: remedy}
	if at, ok := strings.CutPrefix(where, name+":"); ok {
		line, key, _ := strings.Cut(at, ": ")
		if n, err := strconv.Atoi(line); err == nil {
			p.Line, p.Key = n, key
		}
	}
	return p
}

// problemRef refers to a problem that has been recorded, so that a remedy can be added to it.
type problemRef struct{ problem *Problem }

// remedyf formats a text and sets it as the problem's remedy, which tells the operator what to do.
func (n problemRef) remedyf(format string, args ...any) {
	n.problem.Remedy = fmt.Sprintf(format, args...)
}

// remedy sets the problem's remedy, which tells the operator what to do. It may be empty.
func (n problemRef) remedy(text string) { n.problem.Remedy = text }

// WithWarnings returns the errors p together with the warnings, which it marks as such, sorted by
// position. If there are more than problemsMax, it omits warnings.
func WithWarnings(p, warnings Problems) Problems {
	room := min(len(warnings), max(problemsMax-len(p), 0))
	if room == 0 {
		return p
	}
	all := slices.Clone(p)
	for _, w := range warnings[:room] {
		marked := *w
		marked.Warning = true
		all = append(all, &marked)
	}
	sortProblems(all)
	return all
}

func sortProblems(p Problems) {
	slices.SortStableFunc(p, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key))
	})
}

// problemsMax bounds the problems of a document that are reported. recordedMax bounds those that are
// recorded while the document is read.
const (
	problemsMax = 100
	recordedMax = 10_000
)

// appendProblem appends a problem to a list, unless the list already has recordedMax problems.
func appendProblem(list *Problems, one *Problem) {
	if len(*list) < recordedMax {
		*list = append(*list, one)
	}
}

// sortAndLimit returns the problems of p sorted by position, without duplicates and with long texts
// shortened. If there are more than problemsMax, it replaces the rest by one problem with their number.
func sortAndLimit(p Problems) Problems {
	atLeast := ""
	if len(p) == recordedMax {
		atLeast = "at least "
	}
	sortProblems(p)
	for _, one := range p {
		one.Key, one.Text, one.Remedy = truncate(one.Key, maxText), truncate(one.Text, maxText), truncate(one.Remedy, maxText)
	}
	p = slices.CompactFunc(p, func(a, b *Problem) bool { return *a == *b })
	if len(p) <= problemsMax {
		return p
	}
	more := fmt.Sprintf("... and %s%d more", atLeast, len(p)-problemsMax)
	return append(p[:problemsMax:problemsMax], &Problem{File: p[0].File, Text: more, Remedy: "correct these first"})
}

// problemf records a problem with the value, so that the document is rejected. It returns a reference
// for adding a remedy.
func (p place) problemf(format string, args ...any) problemRef {
	w := p.problem(format, args...)
	appendProblem(&p.file.problems, w)
	return problemRef{w}
}

// warn records a warning about the value. It returns a reference for adding a remedy.
func (p place) warn(format string, args ...any) problemRef {
	w := p.problem(format, args...)
	appendProblem(&p.file.warnings, w)
	return problemRef{w}
}

func (p place) problem(format string, args ...any) *Problem {
	text := fmt.Sprintf(format, args...)
	if value := p.node.Value; len(value) > maxValueText {
		text = strings.ReplaceAll(text, strconv.Quote(value), strconv.Quote(truncate(value, maxValueText)))
		text = strings.ReplaceAll(text, value, truncate(value, maxValueText))
	}
	return &Problem{File: p.file.name, Line: p.node.Line, Column: p.node.Column, Key: p.path, Text: text}
}

// maxValueText is the maximum length in bytes of a value in the text of a problem, and maxText that of
// the whole text, of the key and of the remedy. Longer ones are shortened.
const (
	maxValueText = 60
	maxText      = 600
)

// truncate returns s. If s is longer than most bytes, truncate shortens it and appends "...".
func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "..."
}
