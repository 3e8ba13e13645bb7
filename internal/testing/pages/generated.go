package pages

import (
	"fmt"
	"strings"
)

// WithParts returns the text of a page with new contents of its generated parts, by name. A part stands between the
// lines "<!-- NAME: written by make TARGET -->" and "<!-- end of NAME -->".
func WithParts(page, target string, parts map[string]string) (string, error) {
	for name, text := range parts {
		begin, end := "<!-- "+name+": written by make "+target+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, found := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			return "", fmt.Errorf("the page has no place for the part %q", name)
		}
		page = before + begin + text + end + after
	}
	return page, nil
}
