// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

func column(name string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string"}
}

// tableOf returns obj, an object or a list, as the table that kubectl get prints: NAME, the columns of the kind, AGE.
func (c *call) tableOf(obj runtime.Object, now time.Time) (*metav1.Table, error) {
	var options metav1.TableOptions
	if err := c.decodeQuery(&options); err != nil {
		return nil, err
	}
	resource := c.table.resource
	name := metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name"}
	table := &metav1.Table{
		TypeMeta:          metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "Table"},
		ColumnDefinitions: append(append([]metav1.TableColumnDefinition{name}, resource.columns...), column("Age")),
		Rows:              []metav1.TableRow{},
	}
	addRow := func(item runtime.Object) error {
		table.Rows = append(table.Rows, resource.row(item.(object), options.IncludeObject, now))
		return nil
	}
	if single, ok := obj.(object); ok {
		table.ResourceVersion = single.GetResourceVersion()
		return table, addRow(obj)
	}
	list, err := meta.ListAccessor(obj)
	if err != nil {
		return nil, err
	}
	table.ResourceVersion, table.Continue = list.GetResourceVersion(), list.GetContinue()
	table.RemainingItemCount = list.GetRemainingItemCount()
	return table, meta.EachListItem(obj, addRow)
}

// row returns the row of one object. Besides the cells it contains the object, nothing, or by default the
// metadata, as include says.
func (r *resource) row(obj object, include metav1.IncludeObjectPolicy, now time.Time) metav1.TableRow {
	row := metav1.TableRow{Cells: []any{obj.GetName()}}
	if r.cells != nil {
		row.Cells = append(row.Cells, r.cells(obj)...)
	}
	age := "<unknown>"
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		age = duration.HumanDuration(now.Sub(created.Time))
	}
	row.Cells = append(row.Cells, age)
	switch include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		full := obj.DeepCopyObject().(object)
		full.GetObjectKind().SetGroupVersionKind(r.gvk())
		row.Object = runtime.RawExtension{Object: full}
	default:
		row.Object = runtime.RawExtension{Object: partialMetadata(obj)}
	}
	return row
}
