package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing wrong in a document, or worth a word.
type Problem struct {
	// File is what the document is called.
	File string
	// Line and Column count from 1; 0: the whole file, the whole line.
	Line, Column int
	// Key is the path of keys: "net[0].local NI(s)[1].tunables"; empty: none.
	Key string
	// Text says what is wrong, Remedy what would be right, if that is known.
	Text, Remedy string
	// Warning says that the document could be taken as it is.
	Warning bool
}

// ProblemAt is about the entry at where in a document: "name:line: key", or what an entry
// without a place is called.
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

// Error is "file:line:column: key: text; remedy", without what is not known.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	for _, n := range []int{p.Line, p.Column} {
		if n > 0 {
			fmt.Fprintf(&b, ":%d", n)
		}
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	if p.Warning {
		b.WriteString(": warning")
	}
	b.WriteString(": " + p.Text)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// noted is a problem that has been noted.
type noted struct{ problem *Problem }

// try adds what would be right.
func (n noted) try(format string, args ...any) { n.problem.Remedy = fmt.Sprintf(format, args...) }

// remedy adds what would be right; empty: it is not known.
func (n noted) remedy(text string) { n.problem.Remedy = text }

// Problems are all of a document, in its order. As an error they are never empty.
type Problems []*Problem

// Error is a line for each.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for k, one := range p {
		lines[k] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// With returns p, which is in order, with warnings, marked as such: all that was found in a
// document with errors. If there are many, errors have precedence.
func (p Problems) With(warnings Problems) Problems {
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
	all.sort()
	return all
}

func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Key, b.Key))
	})
}

// problemsMax is how many problems are told, notedMax how many are kept until then.
const (
	problemsMax = 100
	notedMax    = 10_000
)

// note adds a problem, unless there are too many.
func (p *Problems) note(one *Problem) {
	if len(*p) < notedMax {
		*p = append(*p, one)
	}
}

// inOrder sorts by place, since keys have been looked at in any order, leaves out what
// has been noted twice, and tells of the first alone if there are many.
func (p Problems) inOrder() Problems {
	atLeast := ""
	if len(p) == notedMax {
		atLeast = "at least "
	}
	p.sort()
	for _, one := range p {
		one.Key, one.Text, one.Remedy = cut(one.Key, longestText), cut(one.Text, longestText), cut(one.Remedy, longestText)
	}
	p = slices.CompactFunc(p, func(a, b *Problem) bool { return *a == *b })
	if len(p) <= problemsMax {
		return p
	}
	more := fmt.Sprintf("... and %s%d more", atLeast, len(p)-problemsMax)
	return append(p[:problemsMax:problemsMax], &Problem{File: p[0].File, Text: more, Remedy: "mend these first"})
}

// wrong notes a problem with the value.
func (p place) wrong(format string, args ...any) noted {
	w := p.problem(format, args...)
	p.file.problems.note(w)
	return noted{w}
}

// warn notes something about the value that the operator should know.
func (p place) warn(format string, args ...any) noted {
	w := p.problem(format, args...)
	p.file.warnings.note(w)
	return noted{w}
}

func (p place) problem(format string, args ...any) *Problem {
	text := fmt.Sprintf(format, args...)
	if value := p.node.Value; len(value) > longestEcho {
		text = strings.ReplaceAll(text, strconv.Quote(value), strconv.Quote(cut(value, longestEcho)))
		text = strings.ReplaceAll(text, value, cut(value, longestEcho))
	}
	return &Problem{File: p.file.name, Line: p.node.Line, Column: p.node.Column, Key: p.path, Text: text}
}

// How much of a value, and of anything else, a problem repeats; bytes.
const (
	longestEcho = 60
	longestText = 600
)

// cut is the beginning of a text, with a mark if that is not all of it.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "..."
}
