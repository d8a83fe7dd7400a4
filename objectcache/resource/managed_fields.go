// SPDX-License-Identifier: Apache-2.0

package resource

// WithManagedFields returns the resource with objects of which stores keep the managedFields. Default: stores drop
// them, and most streams do not decode them.
//
// What reads managedFields does nothing without them, and returns no error: the Extract functions of client-go's apply
// configurations return an empty configuration, and an Apply of what is made of it removes the fields that the program
// has applied before; csaupgrade upgrades nothing. They often take as much memory as a small object itself.
func (r Resource[T]) WithManagedFields() Resource[T] {
	r.managedFields = true
	if all := r.rest; all != nil {
		r.useREST(all.Client, all.NewObject, all.NewList)
		r.rest.Selector = all.Selector
	}
	return r
}
