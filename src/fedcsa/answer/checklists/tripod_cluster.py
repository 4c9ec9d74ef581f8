"""TRIPOD-Cluster: numbers and topics of the items as published, sentences of our own."""

from __future__ import annotations

from fedcsa.answer.checklists import answers as know
from fedcsa.answer.checklists.items import Checklist, ChecklistItem

TRIPOD_CLUSTER = Checklist(
    "TRIPOD-Cluster",
    "T. P. A. Debray and others: TRIPOD-Cluster checklist. BMJ 2023;380:e071018 (19 items)",
    "10.1136/bmj-2022-071018",
    (
        ChecklistItem(
            "1",
            "Title",
            "Say that a model is developed or validated, for whom, for which outcome",
            know.title,
            "population and outcome",
        ),
        ChecklistItem(
            "2", "Abstract", "Summarise aims, setting, data, analysis, results and conclusions"
        ),
        ChecklistItem(
            "3a",
            "Background",
            "Explain the medical context, the reason, earlier models, and what clusters add",
        ),
        ChecklistItem(
            "3b", "Objectives", "State the aims: development or validation", know.objective
        ),
        ChecklistItem(
            "4a",
            "Participants and data",
            "Say which participants and which data sets were eligible",
        ),
        ChecklistItem(
            "4b",
            "Participants and data",
            "Describe the origin of the data, how they were found and collected",
            know.data_sources,
            "origin, and how they were found",
        ),
        ChecklistItem(
            "5",
            "Sample size",
            "Explain the size of the study",
            know.sample_size,
            "how it came about",
        ),
        ChecklistItem(
            "6a",
            "Outcome",
            "Define the outcome, how and when it is assessed",
            know.outcome,
            "definition and assessment",
        ),
        ChecklistItem(
            "6b",
            "Predictors",
            "Define every predictor, how and when it is measured",
            know.feature_columns,
            "how and when each is measured",
        ),
        ChecklistItem(
            "7a",
            "Data preparation",
            "Describe cleaning, harmonisation, linkage and checks",
            know.preparation,
            "checks at the sites",
        ),
        ChecklistItem(
            "7b", "Data preparation", "Say how risk of bias was assessed in every cluster"
        ),
        ChecklistItem(
            "7c", "Data preparation", "Name differences in definitions from the development data"
        ),
        ChecklistItem(
            "7d",
            "Data preparation",
            "Say how missing data were handled",
            know.missing_data,
            "rows that the sites left out before",
        ),
        ChecklistItem("8a", "Analysis", "Say how predictors entered", know.predictor_handling),
        ChecklistItem(
            "8b",
            "Analysis",
            "Name the model, the steps that made it, and how it was validated",
            know.model_building,
            part="D",
        ),
        ChecklistItem(
            "8c",
            "Analysis",
            "Say how differences of parameters between clusters were handled",
            know.parameter_differences,
            part="D",
        ),
        ChecklistItem("8d", "Analysis", "Say how predictions were computed", know.prediction_rule),
        ChecklistItem("8e", "Analysis", "Name the measures of performance", know.measures_used),
        ChecklistItem(
            "8f",
            "Analysis",
            "Say how differences of performance between clusters were measured",
            know.performance_differences,
        ),
        ChecklistItem(
            "8g",
            "Analysis",
            "Describe updates of the model, overall or for settings",
            know.updating,
        ),
        ChecklistItem(
            "9",
            "Sensitivity",
            "Describe planned analyses of subgroups and of sensitivity",
            know.sensitivity_planned,
        ),
        ChecklistItem(
            "10a",
            "Participants",
            "Count clusters and participants from found to analysed",
            know.participants,
            "who was left out at each site",
        ),
        ChecklistItem(
            "10b",
            "Participants",
            "Report characteristics overall and for every data source",
            know.characteristics,
            "dates, treatments, follow-up, missing data",
        ),
        ChecklistItem("10c", "Participants", "Compare with the development data", know.shift),
        ChecklistItem("11", "Risk of bias", "Report the risk of bias of every cluster"),
        ChecklistItem(
            "12a",
            "Model",
            "Report differences between clusters that led to decisions",
            know.parameter_differences,
            part="D",
        ),
        ChecklistItem(
            "12b",
            "Model",
            "Present the final model and how to use it",
            know.specification,
            "terms of use",
            "D",
        ),
        ChecklistItem(
            "13a",
            "Performance",
            "Report performance with intervals, overall and in every cluster",
            know.performance_everywhere,
        ),
        ChecklistItem(
            "13b",
            "Performance",
            "Report how performance differs between clusters",
            know.performance_by_source,
        ),
        ChecklistItem(
            "14", "Updating", "Report the updated model and its performance", know.updated
        ),
        ChecklistItem(
            "15",
            "Sensitivity",
            "Report analyses of subgroups and of sensitivity",
            know.sensitivity_found,
        ),
        ChecklistItem(
            "16a",
            "Interpretation",
            "Interpret the results, with the differences between clusters",
            know.interpretation,
            "earlier studies",
        ),
        ChecklistItem(
            "16b",
            "Interpretation",
            "Compare with performance in the development data and earlier validations",
        ),
        ChecklistItem(
            "16c",
            "Limitations",
            "Discuss strengths and limitations",
            know.limitations,
            "what they mean here",
        ),
        ChecklistItem(
            "17",
            "Implications",
            "Discuss use, and how far the model carries to other settings",
            know.next_steps,
            "use in practice",
        ),
        ChecklistItem(
            "18",
            "Supplements",
            "Say where protocol, code and data can be had",
            know.code,
            "protocol and data",
        ),
        ChecklistItem("19", "Funding", "Name the funders and their role"),
    ),
)
