package modparam

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Problem is an error or a warning about a text. Column and Key are not used.
type Problem = api.Problem

// Problems is a list of errors and warnings about texts.
type Problems = api.Problems

// split returns p as warnings if p contains only warnings. Otherwise it returns all of p as the error.
func split(p Problems) (warnings Problems, err error) {
	if slices.ContainsFunc(p, func(one *Problem) bool { return !one.Warning }) {
		return nil, p
	}
	return p, nil
}

// problemsMax is the maximum number of errors, and of warnings, that are kept for one text. longestText is
// the maximum length of the text of each in bytes.
const (
	problemsMax = 100
	longestText = 600
)

// findings collects the errors and warnings about one text.
type findings struct {
	file             string
	errors, warnings Problems
	more             int // number of errors and warnings that were not kept
}

// add adds an error about a line.
func (f *findings) add(line int, format string, args ...any) {
	f.note(&f.errors, &Problem{Line: line, Text: fmt.Sprintf(format, args...)})
}

// addRemedied adds an error about a line, with a remedy.
func (f *findings) addRemedied(line int, remedy, format string, args ...any) {
	f.note(&f.errors, &Problem{Line: line, Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// warn adds a warning about a line. The remedy may be empty.
func (f *findings) warn(line int, remedy, format string, args ...any) {
	f.note(&f.warnings, &Problem{Line: line, Text: fmt.Sprintf(format, args...), Remedy: remedy, Warning: true})
}

func (f *findings) note(list *Problems, p *Problem) {
	if len(*list) == problemsMax {
		f.more++
		return
	}
	p.File = f.file
	if len(p.Text) > longestText {
		p.Text = strings.ToValidUTF8(p.Text[:longestText], "") + "..."
	}
	*list = append(*list, p)
}

// all returns all errors and warnings, ordered by line.
func (f *findings) all() Problems {
	list := slices.Concat(f.errors, f.warnings)
	slices.SortStableFunc(list, func(a, b *Problem) int { return cmp.Compare(a.Line, b.Line) })
	if f.more > 0 {
		list = append(list, &Problem{
			File: f.file, Text: fmt.Sprintf("... and %d more", f.more), Remedy: "correct these first", Warning: len(f.errors) == 0,
		})
	}
	return list
}

// because returns the innermost error that err wraps. Its text does not repeat the input.
func because(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
