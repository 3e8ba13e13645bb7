package config

import _ "embed"

// Reference is a configuration file with every key and its default.
//
//go:embed reference.yaml
var Reference []byte
