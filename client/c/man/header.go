package main

import (
	"fmt"
	"regexp"
	"strings"
)

// function is a function of the header, with what stands before it.
type function struct {
	name      string
	prototype string   // as in the header, without LNETD_API, with its semicolon
	comment   []string // paragraphs
	types     []item   // what stands between the function before and this one
}

// item is a declaration of types or constants, or a comment that stands alone, which has no code.
type item struct {
	comment []string // paragraphs
	code    string   // lines as in the header
}

var (
	body    = regexp.MustCompile(`(?s)extern "C" \{\n#endif\n(.*?)\n#ifdef __cplusplus`)
	macro   = regexp.MustCompile(`(?s)\n#if defined\(__GNUC__\).*?#endif\n`)
	handles = regexp.MustCompile(`(?m)^typedef struct .*\n`)
	block   = regexp.MustCompile(`(?s)^/\*.*?\*/\n`)
	named   = regexp.MustCompile(`\b(lnetd_\w+)\(`)
)

// functions returns the functions of the header in their order.
func functions(header string) ([]function, error) {
	m := body.FindStringSubmatch(header)
	if m == nil {
		return nil, fmt.Errorf("the functions do not stand between extern \"C\" and its end")
	}
	var all []function
	var types []item
	var comment []string // of the next function, if nothing else stands between
	for part := range strings.SplitSeq(handles.ReplaceAllString(macro.ReplaceAllString(m[1], "\n"), ""), "\n\n") {
		part = strings.Trim(part, "\n") + "\n"
		text := block.FindString(part)
		code := strings.TrimPrefix(part, text)
		if strings.HasPrefix(text, "/* ----") || strings.TrimSpace(part) == "" {
			continue // a heading
		}
		comment = paragraphs(text)
		if !strings.HasPrefix(code, "LNETD_API ") {
			types = append(types, item{comment: comment, code: code})
			continue
		}
		for declaration := range strings.SplitSeq(strings.TrimSpace(code), ";\n") {
			prototype := strings.TrimSuffix(strings.TrimPrefix(declaration, "LNETD_API "), ";") + ";"
			name := named.FindStringSubmatch(prototype)
			if name == nil {
				return nil, fmt.Errorf("%q is no function", prototype)
			}
			all = append(all, function{name: name[1], prototype: prototype, comment: comment, types: types})
			types, comment = nil, nil
		}
	}
	return all, nil
}

// paragraphs returns the text of a comment.
func paragraphs(comment string) []string {
	comment = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(comment), "/*"), "*/")
	var all []string
	var words []string
	for line := range strings.SplitSeq(comment, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*"))
		if line != "" {
			words = append(words, line)
		} else if words != nil {
			all = append(all, strings.Join(words, " "))
			words = nil
		}
	}
	if words != nil {
		all = append(all, strings.Join(words, " "))
	}
	return all
}
