// Package endpoint declares every request of lnetd's control interface once: its method, its path,
// and the types of its request and its reply, which are those of package api. Package server
// registers a handler for each endpoint, package client calls them, and the tables in
// docs/control.md and docs/selftest.md are generated from them.
//
// An endpoint has the name of the client's method.
package endpoint

import (
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// Endpoint is one request of the control interface. A GET request sends a Query, other requests
// send a Request as their body.
type Endpoint[Request, Reply any] struct{ *Info }

// Info is the part of an Endpoint that does not depend on its types.
type Info struct {
	Method, Path string
	// Does says what the request does, for the documentation.
	Does string
	// Takes describes the query parameters or the members of the body, for the documentation. If it is
	// empty, the documentation lists their names.
	Takes string
	// Parameters are the names of the query parameters.
	Parameters []string
	// Request is the type of the body, or Query if the request has no body.
	Request reflect.Type
	// Patience is the time that the client waits for the reply. For Ping and Discover,
	// api.TargetsPatience is used instead.
	Patience time.Duration
	// Document reports whether the body contains a configuration document, which may be large.
	Document bool
	// Media is the media type of the reply, if the reply is a stream.
	Media string
	// WithoutLNet reports whether lnetd serves the request even if LNet is not configured.
	WithoutLNet bool
}

// Stream is the reply of an endpoint that sends data until the client disconnects, lnetd stops, or there are no more.
// The data are not decoded.
type Stream struct{}

// Query holds the query parameters of a request by name. Parameters with an empty value are not sent.
type Query map[string]string

// Target returns path followed by the query, as the target of an HTTP request.
func (q Query) Target(path string) string {
	values := url.Values{}
	for name, v := range q {
		if v != "" {
			values.Set(name, v)
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// Pattern returns the method and the path, in the syntax of http.ServeMux.
func (i *Info) Pattern() string { return i.Method + " " + i.Path }

// all holds the endpoints that have been declared so far.
var all []*Info

// All returns all endpoints in the order of their declaration.
func All() []*Info { return slices.Clone(all) }

func declare[Request, Reply any](method, path, does string) Endpoint[Request, Reply] {
	e := Endpoint[Request, Reply]{&Info{
		Method: method, Path: path, Does: does, Request: reflect.TypeFor[Request](), Patience: api.ReplyPatience,
	}}
	all = append(all, e.Info)
	return e
}

func get[Reply any](path, does string, parameters ...string) Endpoint[Query, Reply] {
	e := declare[Query, Reply]("GET", path, does)
	e.Parameters = parameters
	return e
}

// stream declares a GET request whose reply is a stream of the media type media.
func stream(path, media, does string, parameters ...string) Endpoint[Query, Stream] {
	e := get[Stream](path, does, parameters...)
	e.Media = media
	return e
}

func post[Request, Reply any](path, does string) Endpoint[Request, Reply] {
	return declare[Request, Reply]("POST", path, does)
}

// change declares a POST request whose reply is empty.
func change[Request any](path, does string) Endpoint[Request, api.Done] {
	return post[Request, api.Done](path, does)
}

func remove[Request any](path, does string) Endpoint[Request, api.Done] {
	return declare[Request, api.Done]("DELETE", path, does)
}

// document declares a POST request whose body contains a configuration document.
func document[Request, Reply any](path, does string) Endpoint[Request, Reply] {
	e := post[Request, Reply](path, does)
	e.Document, e.Patience = true, api.DocumentPatience
	return e
}

// lst declares the request for a command of lst.
func lst[Request, Reply any](command, does string) Endpoint[Request, Reply] {
	e := post[Request, Reply](LstPath+command, does)
	e.Patience = api.LstPatience + api.ReplyPatience
	return e
}

func (e Endpoint[Request, Reply]) takes(text string) Endpoint[Request, Reply] {
	e.Takes = text
	return e
}

func (e Endpoint[Request, Reply]) withoutLNet() Endpoint[Request, Reply] {
	e.WithoutLNet = true
	return e
}
