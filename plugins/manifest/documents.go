package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// A document is a part of a file, and the line before it.
type document struct {
	line int
	text []byte
}

// documentsOf splits a file at its lines --- and ..., which no scalar can have at their beginning.
func documentsOf(all []byte) (list []document) {
	var text []byte
	at := 0
	end := func(next int) {
		if len(text) > 0 {
			list = append(list, document{at, text})
		}
		text, at = nil, next
	}
	line := 0
	for content := range bytes.Lines(all) {
		line++
		head := content[:min(3, len(content))]
		rest := bytes.TrimLeft(content[len(head):], " \t")
		marker := (string(head) == "---" || string(head) == "...") && (len(rest) < len(content)-3 || len(bytes.TrimSpace(rest)) == 0)
		if !marker {
			text = append(text, content...)
			continue
		}
		end(line)
		if blank := bytes.TrimSpace(rest); len(blank) > 0 && blank[0] != '#' { // a document may begin there
			text, at = rest, line-1
		}
	}
	end(line)
	return list
}

// objects returns those of a document, as JSON: one, or several after one another where they are JSON. An error names
// the line of the file.
func (d document) objects() (list []json.RawMessage, err error) {
	if begin := withoutComments(d.text); bytes.HasPrefix(begin, []byte("{")) && isJSON(begin) {
		for decoder := json.NewDecoder(bytes.NewReader(begin)); ; {
			var next json.RawMessage
			if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
				return list, nil
			} else if err != nil {
				return nil, err
			}
			list = append(list, next)
		}
	}
	text, err := yaml.YAMLToJSONStrict(d.text)
	switch {
	case err != nil: // once more, for the number of the line
		_, err = yaml.YAMLToJSONStrict([]byte(strings.Repeat("\n", d.line) + string(d.text)))
		return nil, err
	case !isOne(d.text):
		return nil, errors.New("there is text after its object")
	case bytes.Equal(text, []byte("null")):
		return nil, nil
	}
	return []json.RawMessage{text}, nil
}

// withoutComments removes the lines before the first that has more than a comment.
func withoutComments(text []byte) []byte {
	for text = bytes.TrimSpace(text); bytes.HasPrefix(text, []byte("#")); {
		_, text, _ = bytes.Cut(text, []byte("\n"))
		text = bytes.TrimSpace(text)
	}
	return text
}

// isJSON reports whether a text begins with a value in JSON.
func isJSON(text []byte) bool {
	var first json.RawMessage
	return json.NewDecoder(bytes.NewReader(text)).Decode(&first) == nil
}

// isOne reports whether a YAML text has nothing after its first value, which the conversion to JSON ignores.
func isOne(text []byte) bool {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	var node yamlv3.Node
	return decoder.Decode(&node) != nil || errors.Is(decoder.Decode(&node), io.EOF)
}
