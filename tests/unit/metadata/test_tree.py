"""What operations do to a tree, and that a draft touches nothing before it is committed."""

from __future__ import annotations

from anabranch.errors import BadVersion, InvalidInput, NotEmpty
from anabranch.metadata.store import NEW, ChildrenChanged, Created, Deleted, Modified
from anabranch.metadata.tree import (
    Barrier,
    Change,
    Delete,
    DeleteRecursive,
    Draft,
    EndSession,
    Node,
    Operation,
    Outcome,
    Put,
    Tree,
    Written,
)


def apply(tree: Tree, *operations: Operation, now_ms: int = 1) -> list[Outcome]:
    draft = Draft(tree, now_ms)
    outcomes = [draft.apply(operation) for operation in operations]
    tree.commit(draft)
    return outcomes


def put(path: str, owner: int | None = None) -> Put:
    return Put(path, b"", NEW, owner)


def test_a_draft_changes_nothing_until_it_is_committed() -> None:
    tree = Tree()
    draft = Draft(tree, 1)
    assert isinstance(draft.apply(put("/a/b")), Written)
    assert tree.get("/a/b") is None
    assert tree.children("/") == []
    tree.commit(draft)
    assert tree.children("/a") == ["b"]


def test_operations_of_one_draft_see_each_other_in_order() -> None:
    outcomes = apply(Tree(), put("/a"), put("/a"), Put("/a", b"x", 1), Put("/a", b"y", 1))
    assert [type(outcome) for outcome in outcomes] == [Written, BadVersion, Written, BadVersion]


def test_a_failed_operation_uses_no_version() -> None:
    tree = Tree()
    apply(tree, put("/a"), put("/a"), put("/a/b"))
    assert tree.last_version == 2


def test_notifications_are_derived_for_parents_made_on_demand() -> None:
    tree = Tree()
    draft = Draft(tree, 1)
    for operation in (put("/a/b/c"), Put("/a/b/c", b"2", None), put("/a/b/d")):
        draft.apply(operation)
    assert tree.commit(draft) == [
        Created("/a/b/c"),
        ChildrenChanged("/a/b"),
        ChildrenChanged("/a"),
        ChildrenChanged("/"),
        Modified("/a/b/c"),
        Created("/a/b/d"),
        ChildrenChanged("/a/b"),
    ]


def test_parents_that_are_nothing_vanish_with_their_last_child() -> None:
    tree = Tree()
    apply(tree, put("/a"), put("/a/b/c"))
    draft = Draft(tree, 1)
    draft.apply(Delete("/a/b/c"))
    assert tree.commit(draft) == [
        Deleted("/a/b/c"),
        ChildrenChanged("/a/b"),
        ChildrenChanged("/a"),
    ]
    assert tree.children("/a") == []
    assert tree.children("/") == ["a"]


def test_changes_decided_elsewhere_may_remove_a_parent_before_its_child() -> None:
    tree = Tree()
    apply(tree, put("/a"), put("/a/b"))
    heard = tree.take_over([Change("/a", None), Change("/a/b", None)], last_version=9)
    assert heard == [Deleted("/a"), Deleted("/a/b"), ChildrenChanged("/a"), ChildrenChanged("/")]
    assert tree.children("/") == tree.children("/a") == []
    assert tree.last_version == 9


def test_a_record_written_over_an_implied_parent_is_already_listed() -> None:
    tree = Tree()
    apply(tree, put("/a/b"))
    draft = Draft(tree, 1)
    draft.apply(put("/a"))
    assert tree.commit(draft) == [Created("/a")]
    draft = Draft(tree, 1)
    draft.apply(Delete("/a/b"))
    assert tree.commit(draft) == [Deleted("/a/b"), ChildrenChanged("/a")]
    assert tree.children("/") == ["a"]


def test_children_within_the_draft_count_for_deletes() -> None:
    outcomes = apply(Tree(), put("/a"), put("/a/b"), Delete("/a"), Delete("/a/b"), Delete("/a"))
    assert [type(outcome) for outcome in outcomes[2:]] == [NotEmpty, type(None), type(None)]


def test_recursive_deletion_covers_the_draft_and_goes_bottom_up() -> None:
    tree = Tree()
    apply(tree, put("/a"), put("/a/b"), put("/a/gone"))
    draft = Draft(tree, 1)
    for operation in (Delete("/a/gone"), put("/a/b/new"), DeleteRecursive("/a")):
        assert not isinstance(draft.apply(operation), Exception)
    paths = [change.path for change in draft.changes[2:]]
    assert paths == ["/a/b/new", "/a/b", "/a"]
    tree.commit(draft)
    assert len(tree) == 0
    assert tree.children("/") == []


def test_the_end_of_a_session_takes_its_records_of_the_same_draft_too() -> None:
    tree = Tree()
    apply(tree, put("/old", 7), put("/others", 8), put("/kept"))
    apply(tree, put("/new", 7), EndSession(7), Barrier())
    assert tree.children("/") == ["kept", "others"]
    assert tree.owned_by(7) == []
    assert tree.owned_by(8) == ["/others"]


def test_a_record_with_children_cannot_become_ephemeral() -> None:
    (_, outcome) = apply(Tree(), put("/a/b"), put("/a", 1))
    assert isinstance(outcome, InvalidInput)


def test_a_sequential_name_that_was_taken_by_hand_is_stepped_over() -> None:
    tree = Tree()
    by_hand = f"/a-{3:020d}"
    _, _, first = apply(tree, put(by_hand), put("/x"), Put("/a", b"", NEW, sequential=True))
    assert isinstance(first, Written)
    assert first.path == f"/a-{4:020d}"
    assert first.node.version == tree.last_version == 4


def test_a_tree_loaded_from_records_is_the_tree_that_was_saved() -> None:
    node = Node(b"v", 5, 4, 10, 20, None)
    tree = Tree([("/a/b", node), ("/a", node)], last_version=9)
    assert tree.children("/") == ["a"]
    assert list(tree.records_within("/")) == ["/a/b", "/a"]
    (outcome,) = apply(tree, Put("/a/b", b"w", 5), now_ms=30)
    assert outcome == Written("/a/b", Node(b"w", 10, 4, 10, 30, None))
