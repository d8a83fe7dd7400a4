// SPDX-License-Identifier: Apache-2.0

// Package referencegrants is a [manager.ReferencePolicy] of Gateway API's ReferenceGrants, for a program that lets
// users name Secrets in other namespaces, such as a gateway controller. Copy it: it needs no module beside client-go.
//
//	ReferenceGrants ──▶ Grants.Replace ──▶ SetReferencePolicy(Grants.Permits)
//	Gateways ────────▶ SetReferences ───────────▶ manager ──▶ GetFor, CheckReference
//
// A reference to a Secret in the namespace of its owner counts. One to another namespace counts only if a
// ReferenceGrant in that namespace permits it: by the group, kind and namespace of the owner, and by the Secret's name,
// if the grant has one. Until the grants are listed, none is permitted. When a grant is deleted, the references that it
// permitted are deleted as well, and with the last one the Secret leaves the memory.
//
// Changes of a manager yields nothing for a reference that is denied by now. So when the grants have changed, let the
// controller reconcile the owners that name Secrets of other namespaces, and write the error of CheckReference to their
// status. The program needs list and watch of referencegrants in all namespaces; without the CustomResourceDefinition
// the reflector logs that, tries again, and no reference across namespaces is permitted.
//
// A denial depends on the grants alone: it does not show whether the Secret exists, as the API demands
// (https://gateway-api.sigs.k8s.io/api-types/referencegrant/).
package referencegrants
