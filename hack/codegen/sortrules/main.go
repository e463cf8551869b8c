// Sortrules sorts the validation rules of CustomResourceDefinitions: controller-gen
// writes more than a dozen of one type in another order each time.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, path := range os.Args[1:] {
		if err := sortFile(path); err != nil {
			fmt.Fprintf(os.Stderr, "sortrules: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func sortFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return err
	}
	var object any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&object); err != nil {
		return err
	}
	walk(object)
	if text, err = json.Marshal(object); err != nil {
		return err
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte("---\n"), text...), 0o644)
}

func walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk(e)
		}
	case map[string]any:
		for key, e := range v {
			if rules, ok := e.([]any); ok && key == "x-kubernetes-validations" {
				slices.SortStableFunc(rules, func(a, b any) int { return cmp.Compare(rule(a), rule(b)) })
			}
			walk(e)
		}
	}
}

func rule(v any) string {
	m, _ := v.(map[string]any)
	return fmt.Sprint(m["fieldPath"], " ", m["rule"])
}
