package server

import (
	"strings"
	"testing"
	"testing/iotest"
)

// TestMembers checks that a request is rejected if it has the same member twice, in any spelling
// that the decoder treats as the same, or if it has a null value. How its bytes arrive does not
// matter.
func TestMembers(t *testing.T) {
	type request struct {
		Text, Mode string
		Number     *int
		LND        map[string]int64
		Below      []request
	}
	many := strings.Repeat(`{"text":"a","mode":"b"},`, 1000)
	for body, want := range map[string]string{
		`{"text":"a","mode":"b"}`:                                              "",
		`{"text":"text","mode":"text: {\"mode\": null, \"mode\": 1}"}`:         "",
		`{"text":"\\","mode":"\\\""}`:                                          "",
		`{"below":[` + many + `{"below":[{"text":"n"}]}],"text":"a"}`:          "",
		`{"lnd":{"text":1,"mode":2},"text":"a","below":[],"number":-1}`:        "",
		`{"text":"a","text":"a"}`:                                              `"text" is given twice`,
		`{ "text" : "a" , "below" : [ 1 , { "TEXT" : "b" } ] , "TeXT" : "b" }`: "cannot unmarshal",
		`{ "text" : "a" , "below" : [ { "TEXT" : "b" } ] , "TeXT" : "b" }`:     `"TeXT" is given twice`,
		`{"text":"a","te\u0078t":"b"}`:                                         `"text" is given twice`,
		`{"below":[{"text":"a"},{"mode":"b","mode":"b"}]}`:                     `"mode" is given twice`,
		`{"below":[{}],"below":[{"text":"a"}]}`:                                `"below" is given twice`,
		`{"lnd":{"a":1,"a":2}}`:                                                `"a" is given twice`,
		`{"text":null}`:                                                        "null is not a value",
		`{"number":null}`:                                                      "null is not a value",
		`{"below":[null]}`:                                                     "null is not a value",
		`null`:                                                                 "null is not a value",
		`{"` + strings.Repeat("x", 300) + `":1}`:                               "unknown field",
	} {
		var r request
		got := ""
		if f := decode(iotest.OneByteReader(strings.NewReader(body)), &r); f != nil {
			got = f.Cause
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%.60s: %q, want %q", body, got, want)
		}
	}
}
