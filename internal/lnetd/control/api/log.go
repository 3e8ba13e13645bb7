package api

// Log is the reply to GET /v1/log: the settings of lnetd's log.
type Log struct {
	// Level is the lowest level that is logged: debug, info, warn or error.
	Level string `json:"level"`
	// Configured is the level that the configuration or the command line sets. A reload makes it the
	// level in force again.
	Configured string `json:"configured"`
	// Format is the current format of log lines: json, text or journal.
	Format string `json:"format"`
}

// LogChange is the body of POST /v1/log. It sets the level until lnetd ends or reloads its configuration.
type LogChange struct {
	Level string `json:"level"`
}

// LogLevels returns the log levels, the most verbose first.
func LogLevels() []string { return []string{"debug", "info", "warn", "error"} }
