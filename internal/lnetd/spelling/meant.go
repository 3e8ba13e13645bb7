package spelling

import (
	"errors"
	"math"
	"strings"

	"github.com/lnetd/lnetd/lnet"
)

// DidYouMean returns a question that suggests a word, or "" if the word is empty.
func DidYouMean(word string) string {
	if word == "" {
		return ""
	}
	return "did you mean '" + word + "'?"
}

// MeantNetType is like DidYouMean for the net type that was meant by a text that was parsed with the error err. It returns
// "" if err is about something else.
func MeantNetType(err error) string {
	if !errors.Is(err, lnet.ErrUnknownType) {
		return ""
	}
	text := ""
	for field := (*lnet.FieldError)(nil); errors.As(err, &field); err = field.Err {
		if s, ok := field.Value.(string); ok { // the innermost one names the part of the text that is wrong
			text = s
		}
	}
	return DidYouMean(NetType(text))
}

// NetType returns the name of the net type that was probably meant by text, which contains a misspelled one. The text is a
// net, or a NID or a pattern, whose net is behind the last "@". NetType returns "" if no name is similar.
func NetType(text string) string {
	name := text[strings.LastIndexByte(text, '@')+1:]
	if end := strings.IndexAny(name, "[(*, "); end >= 0 {
		name = name[:end]
	}
	var names []string
	for t := range lnet.NetType(math.MaxUint8) {
		if known := t.String(); !strings.HasPrefix(known, "?") { // types without a name
			names = append(names, known)
		}
	}
	return Nearest(strings.TrimRight(name, "0123456789"), names)
}
