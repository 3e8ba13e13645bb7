package modparam

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Problem is one mistake in a text. What Convert and Configuration return are all
// that they found, joined.
type Problem struct {
	// File is the name of the text, Line counts from 1.
	File string
	Line int
	Err  error
}

func (p *Problem) Error() string { return fmt.Sprintf("%s:%d: %v", p.File, p.Line, p.Err) }

// Unwrap is Err.
func (p *Problem) Unwrap() error { return p.Err }

// Problems are those that an error of Convert or Configuration has.
func Problems(err error) []*Problem {
	var list []*Problem
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, Problems(e)...)
		}
	}
	if p := (*Problem)(nil); list == nil && errors.As(err, &p) {
		list = append(list, p)
	}
	return list
}

// problems are those of one text.
type problems struct {
	file string
	all  []error
}

func (p *problems) add(line int, format string, args ...any) {
	p.all = append(p.all, &Problem{File: p.file, Line: line, Err: fmt.Errorf(format, args...)})
}

// err is all of them in the order of their lines.
func (p *problems) err() error {
	list := slices.SortedStableFunc(slices.Values(p.all), func(a, b error) int {
		return cmp.Compare(lineOf(a), lineOf(b))
	})
	return errors.Join(list...)
}

func lineOf(err error) int {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p.Line
	}
	return 0
}

// because is what an error says is wrong, without what it says it is wrong of.
func because(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
