package config

import (
	"reflect"
	"testing"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/lnd"
)

// Each field of Parameters has exactly one entry in the table.
func TestEveryParameterIsInTheTable(t *testing.T) {
	p := defaultParameters()
	check := func(name string, field reflect.Value) {
		before := reflect.ValueOf(field.Interface())
		switch {
		case field.Kind() == reflect.Bool:
			field.SetBool(!field.Bool())
		case field.CanInt():
			field.SetInt(field.Int() + 3e9) // seconds, if it is a duration
		default:
			field.SetUint(field.Uint() + 1)
		}
		var entries []string
		for k := range parameterTable {
			if o := &parameterTable[k]; o.Live && o.get(&p) != o.Default {
				entries = append(entries, o.Name)
			}
		}
		if len(entries) != 1 {
			t.Errorf("%s has the entries %q, want one", name, entries)
		}
		field.Set(before)
	}
	all := reflect.ValueOf(&p).Elem()
	of := all.FieldByName("Parameters")
	for k := range of.NumField() {
		check(of.Type().Field(k).Name, of.Field(k))
	}
	check("RouterSensitivity", all.FieldByName("RouterSensitivity"))
}

// A parameter has the number that was set, or the one for which it stands. The others stay.
func TestSetParameters(t *testing.T) {
	for k := range parameterTable {
		o := &parameterTable[k]
		for _, v := range []int64{o.Min, o.Min + 1, o.Max, o.Default} {
			p, want := defaultParameters(), o.Stored(v)
			if !o.Live {
				want = o.Default
			}
			p.Set(map[string]int64{o.Name: v})
			if got := o.get(&p); got != want {
				t.Errorf("%s %d is %d, want %d", o.Name, v, got, want)
			}
			if o.put(&p, o.Default); p != defaultParameters() {
				t.Errorf("%s %d changes others: %+v", o.Name, v, p)
			}
		}
	}
}

// Entries are complete: names are unique, the default is in the range, and each has a help text.
func TestParameterTable(t *testing.T) {
	names, modules := map[string]bool{}, map[string]bool{}
	for _, p := range ParameterTable() {
		if p.Name == "" || names[p.Name] || p.Module != "" && modules[p.Module] {
			t.Errorf("the name or the module parameter of %+v is empty, or not its alone", p)
		}
		names[p.Name], modules[p.Module] = true, true
		if p.Range().Check(p.Default) != nil || p.Default != p.Stored(p.Default) {
			t.Errorf("%s: default %d is not a value in %s", p.Name, p.Default, p.Range())
		}
		if p.Help == "" || p.Section != parameters.Global && p.Section != parameters.Lnetd || p.Kind > lnd.Bool {
			t.Errorf("%+v", p)
		}
	}
}

// lnetctl 4.13
func TestDiscoveryMode(t *testing.T) {
	tests := []struct {
		now  discovery.Mode
		to   int64
		want discovery.Mode
	}{
		{discovery.On, 1, discovery.On},
		{discovery.On, 0, discovery.Off},
		{discovery.Off, 1, discovery.On},
		{discovery.Verify, 1, discovery.Verify},
		{discovery.Verify, 0, discovery.Off},
	}
	for _, tt := range tests {
		p := defaultParameters()
		p.Discovery = tt.now
		if p.Set(map[string]int64{"discovery": tt.to}); p.Discovery != tt.want {
			t.Errorf("%s, set to %d: %s", tt.now, tt.to, p.Discovery)
		}
	}
}
