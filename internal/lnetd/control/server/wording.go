package server

import (
	"errors"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/node"
)

// wording is lnetctl's text for a kind of error.
type wording struct {
	err    error
	code   api.Code
	text   string // if empty, the attempted action and the text of the error number
	remedy string
}

// describedError returns a Fault with the text of the first matching wording, or else the text of the error
// number. It returns a Fault in err's chain unchanged.
func describedError(attempted string, code api.Code, err error, words ...wording) *api.Fault {
	if f := (*api.Fault)(nil); errors.As(err, &f) {
		return f
	}
	errno := Errno(err)
	f := api.Fault{Code: code, Errno: -int(errno), Text: attempted + ": " + api.Strerror(errno)}
	for _, w := range append(words, common...) {
		if !errors.Is(err, w.err) {
			continue
		}
		f.Code, f.Remedy = w.code, w.remedy
		if w.text != "" {
			f.Text = w.text
		}
		break
	}
	return f.Because(err)
}

// common are the wordings that apply to all requests.
var common = []wording{
	{err: node.ErrClosed, code: api.CodeStopping, text: "Network is down", remedy: "lnetd is stopping; try again when it runs again"},
}
