package protocol

import (
	"errors"
	"iter"

	"github.com/lnetd/lnetd/lnet"
)

// KeepaliveCookie is a cookie that is never used for a request. A NOOP with only this cookie is a
// keepalive and acknowledges nothing (socklnd 10.1, 11).
const KeepaliveCookie uint64 = 1

// FirstCookie is the first cookie that a sender uses for a request.
const FirstCookie uint64 = 2

var (
	errKeepaliveSet = errors.New("the keepalive cookie cannot be acknowledged together with others")
	errSingleOnly   = errors.New("a V2 frame can only acknowledge one cookie")
	errNoFrames     = errors.New("V1 connections have no acknowledgements")
)

// Cookies are the cookies of the zero-copy requests that one frame acknowledges: none, one, two separate ones,
// or a range.
type Cookies struct {
	// If pair is set, the two cookies first and last are acknowledged, otherwise all from first to last. Both
	// are 0 if no cookie is acknowledged.
	first, last uint64
	pair        bool
}

// Acknowledged returns the cookies that the frame f acknowledges on a connection of version v (socklnd 10.3).
// If f is invalid, it returns a *lnet.FieldError.
//
// A range may contain up to 2^64-2 cookies. Compare Len with the number of outstanding requests before you
// iterate over All.
func Acknowledged(f Frame, v Version) (Cookies, error) {
	switch {
	case !v.Framed():
		return Cookies{}, cookieField(f.Ack, errNoFrames)
	case f.Ack == 0:
		return Cookies{}, nil
	case f.Type == FrameLNet:
		return one(f.Ack), nil
	case v == V2:
		if f.Request != 0 {
			return Cookies{}, cookieField(f.Request, errSingleOnly)
		}
		return one(f.Ack), nil
	case f.Request == 0:
		if f.Ack == KeepaliveCookie {
			return Cookies{}, nil
		}
		return one(f.Ack), nil
	case f.Ack == KeepaliveCookie:
		return Cookies{}, cookieField(f.Ack, errKeepaliveSet)
	case f.Request > f.Ack:
		return Cookies{first: f.Ack, last: f.Request, pair: true}, nil
	}
	return Cookies{first: f.Request, last: f.Ack}, nil
}

func one(k uint64) Cookies { return Cookies{first: k, last: k} }

func cookieField(k uint64, err error) error {
	return &lnet.FieldError{What: "frame", Field: "zc_cookies", Value: k, Err: err}
}

// Len returns the number of cookies.
func (c Cookies) Len() uint64 {
	switch {
	case c.last == 0:
		return 0
	case c.pair:
		return 2
	}
	return c.last - c.first + 1
}

// Contains reports whether the cookie k is acknowledged.
func (c Cookies) Contains(k uint64) bool {
	if c.pair {
		return k == c.first || k == c.last
	}
	return k != 0 && c.first <= k && k <= c.last
}

// All iterates over the cookies in ascending order.
func (c Cookies) All() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		step := uint64(1)
		if c.pair {
			step = c.last - c.first
		}
		k := c.first
		for range c.Len() {
			if !yield(k) {
				return
			}
			k += step
		}
	}
}
