package main

import (
	"bytes"
	"errors"
	"io"
	"iter"
)

// listing prints a document that consists of one list, item by item, so that the whole list need not be in
// memory.
type listing struct {
	layout layout
	key    string

	out   io.Writer
	begun bool         // an item has been printed
	b     bytes.Buffer // output that has not been written yet
}

// listingPage is the number of bytes of buffered output from which it is written.
const listingPage = 64 << 10

// showList prints a list that may be long. With --json it prints an object with the list as the member name, and
// otherwise the list l with the result of document for each item. It prints nothing for an empty list, except
// with --json.
func showList[T any](
	p *program, form errorForm, l listing, name string, items iter.Seq2[T, error], document func(item *T) mapping,
) error {
	if p.json {
		o := jsonObject{out: p.stdout}
		if err := jsonList(&o, name, items); err != nil {
			return p.unlisted(form, err)
		}
		return o.end()
	}
	l.out = p.stdout
	return p.unlisted(form, l.all(mapped(items, document)))
}

// unlisted returns err, the error of printing a list. If lnetd has caused it, unlisted prints it and returns the
// exit status.
func (p *program) unlisted(form errorForm, err error) error {
	if from := (*sequenceError)(nil); errors.As(err, &from) {
		return p.refused(form, from.error)
	}
	return err
}

// sequenceError is the error with which a sequence of items ends.
type sequenceError struct{ error }

// mapped yields the result of document for each item.
func mapped[T any](items iter.Seq2[T, error], document func(item *T) mapping) iter.Seq2[mapping, error] {
	return func(yield func(mapping, error) bool) {
		for item, err := range items {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(document(&item), nil) {
				return
			}
		}
	}
}

// all prints the items and flushes the output. An error of the sequence is returned as a *sequenceError, after the
// items before it have been printed.
func (l *listing) all(items iter.Seq2[mapping, error]) error {
	for m, err := range items {
		if err != nil {
			_ = l.flush()
			return &sequenceError{err}
		}
		if err := l.item(m); err != nil {
			return err
		}
	}
	return l.flush()
}

func (l *listing) item(m mapping) error {
	if !l.begun {
		l.begun = true
		l.layout.mapping(&l.b, mapping{{l.key, sequence{}}}, 0, false)
	}
	l.layout.sequence(&l.b, sequence{m}, 0)
	return l.turn()
}

// turn writes the buffered output if it has at least listingPage bytes.
func (l *listing) turn() error {
	if l.b.Len() < listingPage {
		return nil
	}
	return l.flush()
}

func (l *listing) flush() error {
	_, err := l.out.Write(l.b.Bytes())
	l.b.Reset()
	return err
}
