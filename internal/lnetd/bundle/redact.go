package bundle

import (
	"bytes"
	"regexp"
)

// redaction is a rule for text that must not leave the host.
type redaction struct {
	what, why string
	// words are in lower case. Lines without any of them do not match, which is quick to find out.
	words []string
	// whole reports whether a match may have several lines.
	whole bool
	// finds are expressions with up to two groups, which stay before and after what is replaced.
	finds []*regexp.Regexp
}

// redacted is what replaces a value.
const redacted = "(redacted)"

// secretName matches a name whose value may be a secret.
const secretName = `(?i)((?:password|passwd|secret|token|credential)[a-z0-9_-]*`

// redactions are applied to every file, in this order.
var redactions = []redaction{
	{
		"values of keys and options whose names contain password, passwd, secret, token or credential",
		"they may give access to something",
		[]string{"password", "passwd", "secret", "token", "credential"}, false,
		[]*regexp.Regexp{
			regexp.MustCompile(secretName + `"?\s*[:=]\s*")(?:[^"\\]|\\.)*(")`),
			regexp.MustCompile(secretName + `\\"\s*:\s*\\").*?(\\")`), // JSON in a JSON string
			regexp.MustCompile(secretName + `'?\s*[:=]\s*')[^']*(')`),
			regexp.MustCompile(secretName + `["']?\s*[:=]\s*)[^\s"'\\,}\]]+()`),
		},
	},
	{
		"names and passwords in URLs", "they may give access to something", []string{"://"}, false,
		[]*regexp.Regexp{regexp.MustCompile(`(://)[^/\s:@"']+:[^/\s@"']+(@)`)},
	},
	{
		"credentials in Authorization headers", "they may give access to something", []string{"authorization"}, false,
		[]*regexp.Regexp{regexp.MustCompile(`(?i)(authorization["']?\s*[:=]\s*["']?(?:basic|bearer)\s+)[^\s"']+()`)},
	},
	{
		"private keys", "they may give access to something", []string{"private key-----"}, true,
		[]*regexp.Regexp{regexp.MustCompile(`(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)()`)},
	},
	{
		"hashes of passwords", "passwords can be guessed from them", []string{"$2"}, false,
		[]*regexp.Regexp{regexp.MustCompile(`()\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}()`)},
	},
}

// redact returns a text without what must not leave the host.
func redact(text []byte) []byte {
	for k := range redactions {
		r := &redactions[k]
		switch {
		case !r.mayMatch(text):
		case r.whole:
			text = r.apply(text)
		default:
			var out []byte
			for line := range bytes.Lines(text) {
				if r.mayMatch(line) {
					line = r.apply(line)
				}
				out = append(out, line...)
			}
			text = out
		}
	}
	return text
}

// mayMatch reports whether a text has one of the words.
func (r *redaction) mayMatch(text []byte) bool {
	lower := bytes.ToLower(text)
	for _, word := range r.words {
		if bytes.Contains(lower, []byte(word)) {
			return true
		}
	}
	return false
}

func (r *redaction) apply(text []byte) []byte {
	for _, find := range r.finds {
		text = find.ReplaceAll(text, []byte("${1}"+redacted+"${2}"))
	}
	return text
}
