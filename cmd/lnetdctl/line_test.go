package main

import (
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lnetctl 1 (1), 1 (6)
func TestReadLine(t *testing.T) {
	type want struct {
		cmd  string
		args []string
		word string
		help bool
		err  string
	}
	tests := []struct {
		name string
		args []string
		want want
	}{
		{"plain", []string{"net", "show"}, want{cmd: "lnetctl net show", args: []string{"net", "show"}}},
		{"value apart", []string{"net", "show", "--net", "tcp"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--net=tcp"}}},
		{"value attached", []string{"net", "show", "--net=tcp"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--net=tcp"}}},
		{"short value apart", []string{"net", "show", "-n", "tcp"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--net=tcp"}}},
		{"short value attached", []string{"net", "show", "-ntcp"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--net=tcp"}}},
		{"value that looks like an option", []string{"net", "show", "-n", "-v"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--net=-v"}}},
		{"beginning of a name", []string{"net", "show", "--verb", "2"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=2"}}},
		{"level apart", []string{"net", "show", "-v", "4"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=4"}}},
		{"level attached", []string{"net", "show", "-v4"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=4"}}},
		{"level attached long", []string{"net", "show", "--verbose=3"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=3"}}},
		{"level hexadecimal", []string{"net", "show", "-v", "0x2"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=0x2"}}},
		{"no level at the end", []string{"net", "show", "-v"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=1"}}},
		{"no level before an option", []string{"net", "show", "-v", "--net", "tcp"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=1", "--net=tcp"}}},
		{"signed number is no level", []string{"net", "show", "-v", "-n", "tcp"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=1", "--net=tcp"}}},
		{"cluster", []string{"net", "show", "-vn", "tcp"},
			want{cmd: "lnetctl net show", args: []string{"net", "show", "--verbose=1", "--net=tcp"}}},
		{"options behind operands", []string{"ping", "a@tcp", "--timeout", "5", "b@tcp", "-s", "c@tcp"},
			want{cmd: "lnetctl ping", args: []string{"ping", "a@tcp", "--timeout=5", "b@tcp", "--source=c@tcp"}}},
		{"common option before the command", []string{"--control", "/x", "ping", "--json"},
			want{cmd: "lnetctl ping", args: []string{"--control-socket=/x", "ping", "--json=true"}}},
		{"blanks in a list", []string{"net", "add", "--net", "tcp", "--if", "eth0,", "eth1,", "eth2", "-c", "8"},
			want{cmd: "lnetctl net add", args: []string{"net", "add", "--net=tcp", "--if=eth0,eth1,eth2", "--peer-credits=8"}}},
		{"blanks in an attached list", []string{"net", "add", "--net=tcp", "-ieth0,", "eth1"},
			want{cmd: "lnetctl net add", args: []string{"net", "add", "--net=tcp", "--if=eth0,eth1"}}},
		{"a comma before an option", []string{"net", "add", "--if", "eth0,", "--net", "tcp"},
			want{cmd: "lnetctl net add", args: []string{"net", "add", "--if=eth0,", "--net=tcp"}}},
		{"another name of an option", []string{"net", "add", "--ip2nets", "tcp *.*.*.*"},
			want{cmd: "lnetctl net add", args: []string{"net", "add", "--ip2net=tcp *.*.*.*"}}},
		{"end of options", []string{"ping", "--", "--timeout"},
			want{cmd: "lnetctl ping", args: []string{"ping", "--", "--timeout"}}},
		{"unknown command", []string{"foo"},
			want{cmd: "lnetctl", err: "'foo' is not a valid command. See 'lnetctl --list-commands'."}},
		{"unknown subcommand", []string{"net", "foo"},
			want{cmd: "lnetctl net", args: []string{"net"}, err: "'foo' is not a valid command. See 'lnetctl --list-commands'."}},
		{"commands are not shortened", []string{"pin"},
			want{cmd: "lnetctl", err: "'pin' is not a valid command. See 'lnetctl --list-commands'."}},
		{"unknown option", []string{"net", "show", "--what"},
			want{cmd: "lnetctl net show", args: []string{"net", "show"}, err: "unrecognized option '--what'"}},
		{"unknown short option", []string{"net", "show", "-x"},
			want{cmd: "lnetctl net show", args: []string{"net", "show"}, err: "invalid option -- 'x'"}},
		{"missing value", []string{"net", "show", "--net"},
			want{cmd: "lnetctl net show", args: []string{"net", "show"}, err: "option '--net' requires an argument"}},
		{"value for a flag", []string{"ping", "--json=yes"},
			want{cmd: "lnetctl ping", args: []string{"ping"}, err: "option '--json' doesn't allow an argument"}},
		{"help of a command", []string{"ping", "-h"}, want{cmd: "lnetctl ping", args: []string{"ping"}, help: true}},
		{"help word", []string{"help", "net", "show"},
			want{cmd: "lnetctl net show", args: []string{"net", "show"}, word: wordHelp}},
		{"help option at the top", []string{"--help"}, want{cmd: "lnetctl", word: wordHelp}},
		{"version option", []string{"--version"}, want{cmd: "lnetctl", word: wordVersion}},
		{"list below", []string{"net", "--list-commands"},
			want{cmd: "lnetctl net", args: []string{"net"}, word: wordList}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := program{name: "lnetctl", stdout: io.Discard, stderr: io.Discard}
			l, err := readLine(p.root(), tt.args, false)
			got := want{cmd: l.cmd.CommandPath(), args: l.args, word: l.word, help: l.help}
			if err != nil {
				got.err = err.Error()
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAmbiguousOption(t *testing.T) {
	p := program{name: "lnetctl", stdout: io.Discard, stderr: io.Discard}
	root := p.root()
	root.PersistentFlags().String("jump", "", "")
	_, err := readLine(root, []string{"ping", "--j"}, false)
	want := "option '--j' is ambiguous; possibilities: '--json' '--jump'"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// lnetctl 1 (8)
func TestParseNumber(t *testing.T) {
	tests := []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"5", 5, true}, {"+5", 5, true}, {"-5", -5, true}, {"0x1F", 31, true},
		{"-0x10", -16, true}, {"010", 8, true}, {" 7", 7, true}, {"9223372036854775807", 1<<63 - 1, true},
		{"9223372036854775808", 0, false}, {"", 0, false}, {"-", 0, false}, {"abc", 0, false},
		{"5s", 0, false}, {"1_0", 0, false}, {"0b1", 0, false}, {"0o7", 0, false}, {"08", 0, false},
		{"--5", 0, false}, {"0x", 0, false}, {"5 ", 0, false},
	}
	for _, tt := range tests {
		got, ok := parseNumber(tt.in)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("parseNumber(%q) = %d, %v, want %d, %v", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}
