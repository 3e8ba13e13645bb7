package process

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Role returns a command that runs the program of the test with an order, which TakeOrder reads there. The order is
// written as JSON into the environment variable.
func Role(t testing.TB, variable string, order any) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), Order(t, variable, order))
	return cmd
}

// Order returns the setting of the environment variable that gives a program an order.
func Order(t testing.TB, variable string, order any) string {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	return variable + "=" + string(text)
}

// Play calls play and exits if this process was started with an order, which is decoded into order before. The exit
// status is 0, or 3 after an error, which is printed. TestMain calls Play first.
func Play(variable string, order any, play func() error) {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	err := json.Unmarshal([]byte(text), order)
	if err == nil {
		err = play()
	}
	if err != nil {
		fmt.Println(failed, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// failed begins the line with which a process of the test reports why it ends.
const failed = "failed:"

// Say prints a line for the test: a word, and a value as JSON.
func Say(what string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Println(what, string(text))
}
