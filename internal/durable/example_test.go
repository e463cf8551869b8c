package durable_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A log goes on where it was cut off.
func ExampleOpenLog() {
	dir, err := os.MkdirTemp("", "durable")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a folder for examples
	path := filepath.Join(dir, "visits.jsonl")
	err = durable.WriteFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "\"Ada\"\n\"Grace\"\n\"Barb") // a kill
		return err
	})
	if err != nil {
		panic(err)
	}
	log, err := durable.OpenLog(path, durable.Format[string]{Mine: func([]byte) bool { return true }}, func(line int, name string) error {
		fmt.Println(line, name)
		return nil
	})
	if err != nil {
		panic(err)
	}
	if err := log.AppendSync("Barbara"); err != nil {
		panic(err)
	}
	if err := log.Close(); err != nil {
		panic(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
	// Output:
	// 1 Ada
	// 2 Grace
	// "Ada"
	// "Grace"
	// "Barbara"
}
