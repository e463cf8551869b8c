package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Survey counts the objects of files as a plan reads them, and those that a plan would refuse, by KIND.GROUP.
type Survey struct {
	Files, Documents, Objects int
	Kinds                     map[string]*Kind
	Refused                   map[string]int // reasons, of objects of every kind
}

// A Kind is the number of objects of one kind. Each is in one of the fields.
type Kind struct{ Planned, Used, NoPods, LeftOut, NotKnown, Refused int }

// NoObject is the kind of documents that are not Kubernetes objects: templates, values, text.
const NoObject = "(no object)"

// Add counts a file, or all files of a folder. Each object is read alone: an object that a plan would refuse
// ends nothing here, and names may repeat.
func (v *Survey) Add(path string) error {
	files, err := filesOf(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		all, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		v.Files++
		for n, document := range documentsOf(all) {
			objects, err := document.objects()
			if err != nil {
				v.refuse(NoObject, "it is no YAML or JSON")
			} else if len(objects) > 0 {
				v.Documents++
			}
			for _, object := range objects {
				if err := v.object(fmt.Sprintf("%s, document %d", file, n+1), object, metav1.TypeMeta{}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// object counts one object, or the items of a list.
func (v *Survey) object(at string, text []byte, item metav1.TypeMeta) error {
	var e envelope
	_ = json.Unmarshal(text, &e) // readObject reports the error
	if e.Kind == "" && e.APIVersion == "" {
		e.TypeMeta = item
	}
	gvk := e.GroupVersionKind()
	if items, of, ok := itemsOf(text, gvk); ok {
		for _, one := range items {
			if err := v.object(at, one, of); err != nil {
				return err
			}
		}
		return nil
	}
	s, err := newSet(Options{Namespace: metav1.NamespaceDefault})
	if err != nil {
		return err
	}
	err = s.readObject(at, text, item)
	for i := 0; i < len(s.unnamed) && err == nil; i++ {
		err = s.addUnnamed(&s.unnamed[i])
	}
	name := gvk.GroupKind().String()
	if e.Kind == "" || e.APIVersion == "" {
		name = NoObject
	}
	if err != nil {
		v.refuse(name, err.Error())
		return nil
	}
	c, unknown := s.tally.count(), 0
	for _, n := range c.NotKnown {
		unknown += n
	}
	if sum := c.Planned + c.Used + c.NoPods + c.LeftOut + unknown; sum != 1 {
		return fmt.Errorf("%s: %s is counted %d times", at, name, sum)
	}
	v.Objects++
	k := v.kind(name)
	k.Planned, k.Used, k.NoPods, k.LeftOut, k.NotKnown = k.Planned+c.Planned, k.Used+c.Used, k.NoPods+c.NoPods, k.LeftOut+c.LeftOut, k.NotKnown+unknown
	return nil
}

func (v *Survey) kind(name string) *Kind {
	if v.Kinds == nil {
		v.Kinds, v.Refused = map[string]*Kind{}, map[string]int{}
	}
	if v.Kinds[name] == nil {
		v.Kinds[name] = &Kind{}
	}
	return v.Kinds[name]
}

// refuse counts an object that a plan refuses, by the part of the reason that names no object.
func (v *Survey) refuse(name, reason string) {
	v.Objects++
	v.kind(name).Refused++
	parts := strings.Split(reason, ": ")
	v.Refused[parts[len(parts)-1]]++
}
