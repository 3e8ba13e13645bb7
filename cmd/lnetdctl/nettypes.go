package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/internal/lnetd/spelling"
	"github.com/lnetd/lnetd/lnet"
)

// named parses text, which may contain the name of a net type. If the name is unknown, it asks lnetd for the names
// that its configuration gives to net types, and parses the text again. The error of a net type that is unknown then
// suggests a similar one.
func named[T any](p *program, text string, parse func(string) (T, error)) (T, error) {
	v, err := parse(text)
	if errors.Is(err, lnet.ErrUnknownType) && p.askedNetTypes() {
		v, err = parse(text)
	}
	if !errors.Is(err, lnet.ErrUnknownType) {
		return v, err
	}
	if question := spelling.DidYouMean(spelling.NetType(text)); question != "" {
		err = fmt.Errorf("%w; %s", err, question)
	}
	return v, err
}

// askedNetTypes reports whether lnetd has answered a request, whose reply has names of net types.
func (p *program) askedNetTypes() bool {
	c := p.client()
	defer c.Close()
	_, err := c.Version(context.Background())
	return err == nil
}
