package api

import "testing"

// A problem is a line without empty places, whatever is not known of it.
func TestProblemText(t *testing.T) {
	for want, p := range map[string]Problem{
		"a.yaml:3:7: net[0]: too many; leave one out": {File: "a.yaml", Line: 3, Column: 7, Key: "net[0]", Text: "too many", Remedy: "leave one out"},
		"a.yaml:3: warning: it is deprecated":         {File: "a.yaml", Line: 3, Text: "it is deprecated", Warning: true},
		"a.yaml: it is empty":                         {File: "a.yaml", Text: "it is empty"},
		"net tcp: there is no such net":               {Key: "net tcp", Text: "there is no such net"},
		"there is no NI tcp(eth9)":                    {Text: "there is no NI tcp(eth9)"},
		"warning: it is empty":                        {Text: "it is empty", Warning: true},
		"3: it is empty":                              {Line: 3, Text: "it is empty"},
	} {
		if got := p.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
